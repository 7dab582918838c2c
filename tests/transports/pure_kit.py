"""Links of lines of both kinds in one process: over what was compiled, and over the same in Python."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType
from typing import Any

import pytest

from tests.transports.wire_kit import Recorder
from transports import lines as lines_as_built
from transports.base import Limits

MODULES = ("plain_lines", "turn", "line_output", "lines")
BLOCKED = "transports._speedups"


def pure_lines() -> ModuleType:
    """Return `transports.lines` as it is where nothing was compiled, with a `transports.turn` of its own."""
    package = importlib.import_module("transports")
    blocked = sys.modules.get(BLOCKED)
    kept = {name: sys.modules.pop(f"transports.{name}") for name in MODULES}
    sys.modules[BLOCKED] = None  # type: ignore[assignment]
    try:
        return importlib.import_module("transports.lines")
    finally:
        del sys.modules[BLOCKED]
        if blocked is not None:
            sys.modules[BLOCKED] = blocked
        for name, module in kept.items():
            sys.modules[f"transports.{name}"] = module
            setattr(package, name, module)


def compiled_lines() -> ModuleType:
    """Return `transports.lines` over what was compiled. Skips the test where that is not there."""
    pytest.importorskip(
        BLOCKED, reason="nothing was compiled, or TIELINE_PURE_PYTHON is set", exc_type=ImportError
    )
    return lines_as_built


class Shut(BaseException):
    """What ends more than a message."""


def blocking_link(module: Any, receiver: Recorder) -> tuple[Any, int, int]:
    """A link whose descriptors wait, as somebody else can make those that we share with him."""
    heard, writing = os.pipe()
    reading, said = os.pipe()
    link = module.LineLink(reading, writing, limits=Limits(), ending=module.Ending(linger_s=0.0))
    link._receiver, link._message = receiver, receiver.message
    return link, said, heard
