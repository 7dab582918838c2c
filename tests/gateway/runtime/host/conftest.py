"""What most tests of connectors begin with: a session whose one root is the folder `place`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.policy.paths import Root
from gateway.runtime.host.beneath import Folder, Folders
from tests.gateway.runtime.host.kit import Session, folders_of


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def by_kernel() -> bool:
    """Whether the kernel resolves paths. Modules that want it both ways return `both_ways`."""
    return True


@pytest.fixture(params=[True, False], ids=["openat2", "walk"])
def both_ways(request: pytest.FixtureRequest, tmp_path: Path) -> bool:
    if request.param and not Folder(Root(id="x", path=str(tmp_path))).by_kernel:
        pytest.skip("this kernel has no openat2")
    return request.param


@pytest.fixture
def folders(place: Path, by_kernel: bool) -> Iterator[Folders]:
    opened = folders_of(place, by_kernel=by_kernel)
    yield opened
    opened.close()


@pytest.fixture
def session(folders: Folders) -> Session:
    return Session(folders)
