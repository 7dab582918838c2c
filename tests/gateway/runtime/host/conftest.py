"""What most tests of connectors begin with: a session whose one root is the folder `place`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.runtime.host.beneath import Folders
from tests.gateway.runtime.host.kit import Session, folders_of


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def by_kernel() -> bool:
    return True


@pytest.fixture
def folders(place: Path, by_kernel: bool) -> Iterator[Folders]:
    opened = folders_of(place, by_kernel=by_kernel)
    yield opened
    opened.close()


@pytest.fixture
def session(folders: Folders) -> Session:
    return Session(folders)
