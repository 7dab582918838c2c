"""Whether steps run in C is told in words, and with the reason where they do not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import hatch_build
from gateway.runtime import speedups
from gateway.runtime.speedups import Speedups

ROOT = Path(__file__).parents[3]


def test_the_packages_asked_are_those_that_have_c() -> None:
    assert set(speedups.PACKAGES) == {
        each for each in hatch_build.PACKAGES if hatch_build.sources_of(ROOT, each)
    }


def test_who_is_asked_for_python_alone_says_so() -> None:
    told = subprocess.run(
        [sys.executable, "-c", "from gateway.runtime.speedups import speedups; print(speedups().in_words())"],
        env={**os.environ, "TIELINE_PURE_PYTHON": "1"}, capture_output=True, text=True, timeout=50, check=True,
    ).stdout  # fmt: skip

    assert told.startswith("the speedups in C are not in use, and the same is done in Python: ")
    assert "TIELINE_PURE_PYTHON is set" in told or "not compiled" in told


def test_all_some_and_none_of_them_have_words() -> None:
    assert Speedups(("a", "b"), {}).in_words() == "the speedups in C are in use"
    assert Speedups(("a",), {"b": "why"}).in_words() == (
        "the speedups in C of b are not in use, and the same is done in Python: why"
    )
    assert Speedups((), {"a": "why", "b": "why"}).in_words() == (
        "the speedups in C are not in use, and the same is done in Python: why"
    )
