"""Ctrl-C while a program of ours is being loaded, and once its work is done."""

from __future__ import annotations

import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

SCRIPTS: dict[str, str] = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())[
    "project"
]["scripts"]
PROGRAM = """
import os, signal, sys
from importlib import import_module

target, at = sys.argv[1:3]
sys.argv[1:] = sys.argv[3:]

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == at:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
module, _, function = target.partition(":")
main = getattr(import_module(module), function)
try:
    sys.exit(main())
finally:
    if at == "the end":
        os.kill(os.getpid(), signal.SIGINT)
"""


def interrupted(script: str, at: str, *arguments: str, ignored: bool = False) -> tuple[int, str]:
    """How a program ends, and what it says, which is interrupted as it looks for the module `at`."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, SCRIPTS[script], at, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=50,
        check=False,
        preexec_fn=(lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)) if ignored else None,
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_program_that_is_interrupted_as_it_is_loaded_says_nothing(script: str) -> None:
    assert interrupted(script, "msgspec") == (130, "")


@pytest.mark.parametrize("module", ["gateway.cli.main", "gateway.cli.output", "gateway.config", "typer"])
def test_tieline_ends_quietly_whatever_it_was_loading(module: str) -> None:
    assert interrupted("tieline", module, "status") == (130, "")


def test_tieline_ends_quietly_when_its_work_is_done() -> None:
    code, told = interrupted("tieline", "the end", "--version")

    assert (code, told.split()[:1], "Traceback" in told) == (130, ["tieline"], False)


def test_a_gateway_that_is_interrupted_as_it_is_loaded_ends_as_one_that_runs() -> None:
    assert interrupted("tieline", "gateway.serve", "record", "--", "cat") == (0, "")


def test_what_ignores_interrupts_goes_on_doing_so() -> None:
    code, told = interrupted("tieline", "msgspec", "--version", ignored=True)

    assert (code, told.split()[:1]) == (0, ["tieline"])
