"""What there is to compare a gateway with that does hardly anything: what passes bytes on unread, and one in C.

Owns the programs `forward.py` and `floor.c` and the figures that come from them; each is over the direct connection of
the same run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from gateway.bench.client import BenchError
from gateway.bench.exact import MissingError
from gateway.bench.further import take_turns
from gateway.bench.setup import Setup
from gateway.bench.sides import ECHO, PYTHON, Side, Sides
from gateway.bench.turns import Times, pinned

ROUNDS = 40
FORWARD = Path(__file__).with_name("forward.py")
IN_C = Path(__file__).with_name("floor.c")


def forwarding() -> dict[str, float]:
    """A gateway that records nothing, over a program that forwards bytes unread."""
    with tempfile.TemporaryDirectory(prefix="tieline-bench-") as name, Sides(Path(name)) as sides, pinned():
        return {"forwarding-ratio": _over(sides, Setup(recording=False), _forwarding(sides))}


def splicing() -> dict[str, float]:
    """A gateway that records, over a program that lets the kernel move the bytes; each runs where it wants to.

    Raises:
        MissingError: If this system cannot do that.
    """
    if not hasattr(os, "splice"):
        raise MissingError("needs splice(2), which Linux alone has")
    with tempfile.TemporaryDirectory(prefix="tieline-bench-") as name, Sides(Path(name)) as sides:
        floor = _forwarding(sides, "--splice")
        return {"splice-ratio": _over(sides, Setup(), floor, Times.usual)}


def in_c() -> dict[str, float]:
    """A gateway that records, over one in C that does the same for a call and nothing else.

    Raises:
        MissingError: If there is no compiler, or it cannot compile it.
    """
    with tempfile.TemporaryDirectory(prefix="tieline-bench-") as name, Sides(Path(name)) as sides, pinned():
        program = compiled(Path(name))
        floor = sides.command("floor", [str(program), str(Path(name) / "floor.jsonl"), *PYTHON, str(ECHO)])
        return {"c-ratio": _over(sides, Setup(), floor)}


def _forwarding(sides: Sides, *options: str) -> Side:
    return sides.command("forward", [*PYTHON, str(FORWARD), *options, *PYTHON, str(ECHO)])


def _best(times: Times) -> float:
    return times.best(0.5)


def _over(sides: Sides, setup: Setup, floor: Side, of: Callable[[Times], float] = _best) -> float:
    """What a gateway adds to the median of a direct call, over what another program adds to it."""
    direct, least, gateway = Times(sides.direct(Setup())), Times(floor), Times(sides.gateway(setup))
    take_turns((direct, least, gateway), ROUNDS)
    base = of(direct)
    added = of(least) - base
    if added <= 0:
        raise BenchError(f"`{floor.name}` was not slower than the direct connection: the machine is too busy")
    return (of(gateway) - base) / added


def compiled(folder: Path) -> Path:
    """Compile the gateway in C into a folder. Raises `MissingError` as `in_c`."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise MissingError(
            "needs a C compiler, `cc`: `apt-get install gcc libc6-dev`, or what your system calls it"
        )
    program = folder / "floor"
    done = subprocess.run(
        [compiler, "-O2", "-std=gnu11", "-o", str(program), str(IN_C)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    if done.returncode:
        raise MissingError(
            f"`cc` cannot compile the gateway in C: {(done.stderr.splitlines() or ['no reason'])[0]}"
        )
    return program
