"""No call of C leaves memory or a reference behind, whatever it is given."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.speedups.leaks import mallinfo, of_way
from tests.speedups.modules import PACKAGES, ROOT, loaded

COUNT = int(os.environ.get("TIELINE_THROWN", "4000"))
"""Calls of each example; a hundred thousand by hand."""
EXACT = {"PYTHONMALLOC": "malloc", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0"}
"""What is given back is given back at once, and counted so."""


gnu = pytest.mark.skipif(
    not mallinfo, reason="needs the C library of GNU, from 2.33 on, which says how much is in use"
)


@gnu
@pytest.mark.timeout(360)
def test_nothing_stays_of_calls_whatever_they_are_given() -> None:
    try:
        for package in PACKAGES:
            loaded(package)
    except ImportError as error:
        pytest.skip(f"{error}")
    done = subprocess.run(
        [sys.executable, "-m", "tests.speedups.leaks", str(COUNT)],
        cwd=ROOT, env={**os.environ, **EXACT}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr


@gnu
def test_what_stays_is_seen() -> None:
    """Else the other test would find nothing, whatever there was."""
    kept: list[bytes] = []

    assert list(of_way("keeps", lambda: kept.append(bytes(1000)), 100))
    assert not list(of_way("gives back", lambda: len(bytes(1000)), 100))
