"""What a start of `tieline run --stdio` takes up to the first `tools/list`, by counts that no busy machine moves.

    python -m loadtest.starting

Instructions are those of the gateway's process, counted by callgrind; modules and memory are those of a start that
nobody counts. Modules are compiled beforehand and kept in a folder of its own, as `tieline bench` has it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from gateway.bench import sides
from gateway.bench.probes import compiled_in
from gateway.bench.setup import Setup
from gateway.bench.sides import Sides

# What waits for half a second after a start is not to come into it, since under callgrind a start takes longer.
CODE = (
    "import gc, sys; from gateway.cli.main import load_msgspec, main; gc.disable(); load_msgspec(); "
    "import gateway.runtime.upkeep as upkeep; "
    "upkeep.SWEEP_S = 3600; sys.exit(main())"
)
LOADED = (
    "from gateway.cli.main import load_msgspec; load_msgspec()\n"
    "import gateway.cli.run, gateway.cli.loop, gateway.serve, gateway.runtime.upkeep, uvloop, sys\n"
    "print(*sys.modules)"
)
OURS = ("gateway", "recordings", "transports")


def instructions(folder: Path, environment: Mapping[str, str]) -> int:
    """Those of one start, up to the answer of the first `tools/list`."""
    counts = folder / "counts"
    count = ("valgrind", "--tool=callgrind", f"--callgrind-out-file={counts}", "--")
    sides.PATIENCE_S = sides.PATIENCE_S * 10
    sides.TIELINE = (sys.executable, "-c", CODE)
    with Sides(folder / "counted", environment={**environment, "PYTHONHASHSEED": "0"}) as started:
        side = started.gateway(Setup(), under=count)
        subprocess.run(["callgrind_control", "--dump", str(side.pid)], check=True, capture_output=True)
    # The first dump is what was asked for, and the rest is the end.
    found = re.search(r"^(?:summary|totals): (\d+)", Path(f"{counts}.1").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])


def _memory(folder: Path, environment: Mapping[str, str]) -> float:
    """MiB of a gateway that has answered the first `tools/list`."""
    with Sides(folder, environment=environment) as started:
        status = Path(f"/proc/{started.gateway(Setup()).pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def main() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory(prefix="tieline-starting-") as name:
        folder = Path(name)
        environment = compiled_in(folder / "bytecode", os.environ)
        _memory(folder / "first", environment)
        memory = _memory(folder / "second", environment)
        told = subprocess.run(
            [sys.executable, "-c", LOADED], env=environment, check=True, capture_output=True, text=True
        )
        modules = told.stdout.split()
        ours = sum(1 for module in modules if module.split(".")[0] in OURS)
        print(f"{memory:.1f} MiB of memory, {len(modules)} modules, {ours} of them ours")
        if shutil.which("valgrind") is None:
            print("instructions are not counted: needs valgrind")
            return
        print(f"{instructions(folder, environment) / 1e6:.1f} million instructions to the first tools/list")


if __name__ == "__main__":
    main()
