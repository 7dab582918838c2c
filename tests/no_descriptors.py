"""A process that has no descriptors left to load a module with, played by a finder that fails as the system does."""

from __future__ import annotations

import errno
import sys
from importlib.abc import MetaPathFinder

import pytest


class _NoDescriptors(MetaPathFinder):
    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        del path, target
        if fullname == self._name:
            raise OSError(errno.EMFILE, "Too many open files")


def cannot_load(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Have the module be loaded no more, until the patches are undone."""
    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "meta_path", [_NoDescriptors(name), *sys.meta_path])
