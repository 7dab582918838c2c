"""Instructions of a call, counted by valgrind's callgrind: the same on a busy machine, and for one interpreter only.

`core` counts the exchange, redaction and encoding alone (`hot_path`), `whole` a gateway with its pipes. Both begin to
count only when everything is warm: start-up under a valgrind that counts takes a minute. `key` names the interpreter
and what else decides the count: figures of two keys cannot be compared.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from gateway.bench.client import BenchError, call_of
from gateway.bench.exact import MissingError
from gateway.bench.setup import Setup
from gateway.bench.sides import Side, Sides
from gateway.runtime.speedups import speedups

CORE_CALLS = 2000
WARM_UP, CALLS, WINDOWS = 200, 500, 3
PATIENCE_S = 300.0
KEPT = ("PATH", "HOME", "LD_LIBRARY_PATH", "TIELINE_PURE_PYTHON")
"""What of the environment reaches the program whose instructions are counted."""
COLLECTED = re.compile(r"^==\d+== Collected : (\d+)$", re.MULTILINE)


def key() -> str:
    """Return what instruction counts depend on besides our code, in one line."""
    libc = " ".join(part for part in platform.libc_ver() if part)
    try:
        scanner = f"hyperscan {version('hyperscan')}"
    except PackageNotFoundError:
        scanner = "no hyperscan"
    found = speedups()
    which = f" of {' and '.join(found.in_use)}" if found.missing else ""
    compiled = f", speedups{which}" if found.in_use else ""
    return (
        f"{platform.python_implementation()} {platform.python_version()} {platform.machine()}, "
        f"{platform.python_compiler()}, {libc}, msgspec {msgspec.__version__}, {scanner}{compiled}"
    )


def core() -> float:
    """Instructions of one call between the bytes that come and those that go.

    Raises:
        MissingError: If there is no valgrind, or it does not run here.
    """
    with tempfile.TemporaryDirectory(prefix="tieline-bench-") as name:
        command = [
            *_callgrind(Path(name)), sys.executable, "-s", "-P", "-m", "gateway.bench.hot_path", ".", str(CORE_CALLS),
            *_order("{pid}", "instrumentation", "on"),
        ]  # fmt: skip
        done = subprocess.run(
            command, cwd=name, env=environment(), capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )  # fmt: skip
        counts = COLLECTED.findall((Path(name) / "log").read_text(errors="replace"))
        if done.returncode or len(counts) != 2:
            told = (done.stderr.strip() or "nothing").splitlines()[-1]
            raise MissingError(f"valgrind does not run the hot path here: {told}")
    least, most = sorted(map(int, counts))
    return (most - least) / CORE_CALLS


def whole(setup: Setup) -> float:
    """Instructions of one call in a whole gateway: its pipes, its event loop and what its other threads do meanwhile.

    The least of a few windows, since the other threads work by the clock. Exact to about 5 %: no gate holds it.

    Raises:
        MissingError: If there is no valgrind, or it does not run here.
    """
    with tempfile.TemporaryDirectory(prefix="tieline-bench-") as name:
        place = Path(name)
        with Sides(place / "sides", environment=environment()) as sides:
            try:
                side = sides.gateway(setup, under=_callgrind(place))
                make = side.client.prepare
                side.client.time(make(call_of(300), WARM_UP))
                _give(side, "instrumentation", "on")
                side.client.time(make(call_of(300), WARM_UP))
                for _ in range(WINDOWS):
                    _give(side, "zero")
                    side.client.time(make(call_of(300), CALLS))
                    _give(side, "dump")
            except (BenchError, OSError) as error:
                raise MissingError(f"valgrind does not run a gateway here: {error}") from error
        counts = [_total(path) for path in place.glob("out.*")]
    if not counts:
        raise MissingError("valgrind told nothing that can be read")
    return min(counts) / CALLS


def _give(side: Side, *order: str) -> None:
    """Give an order to what counts, and make calls until it is heard: it is looked for while the program runs."""
    command = [word.format(pid=side.pid) for word in _order("{pid}", *order)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as giving:
        while giving.poll() is None:
            side.client.time(side.client.prepare(call_of(300), 1))
    if giving.returncode:
        raise MissingError(
            f"valgrind does not take orders here: {' '.join(command)} ended with {giving.returncode}"
        )


def _total(path: Path) -> int:
    for line in path.read_text(errors="replace").splitlines():
        if line.startswith("totals: "):
            return int(line.split()[1])
    raise MissingError("valgrind told nothing that can be read")


def _callgrind(place: Path) -> list[str]:
    """The start of a command that is run under callgrind, which counts nothing until it is ordered to."""
    return [
        _tool("valgrind"),
        "--tool=callgrind",
        "--instr-atstart=no",
        f"--callgrind-out-file={place}/out",
        f"--log-file={place}/log",
    ]


def _order(pid: str, *order: str) -> list[str]:
    return [_tool("vgdb"), f"--pid={pid}", *order]


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise MissingError(f"needs {name}: `apt-get install valgrind`, or what your system calls it")
    return found


def environment() -> dict[str, str]:
    """What makes two runs alike: text hashes the same, and nothing of the user's environment moves addresses."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    return {**kept, "PYTHONHASHSEED": "0"}
