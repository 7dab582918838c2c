"""Which event loop long-running commands wait on."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from gateway.cli import loop
from gateway.cli.output import CliError


async def kind() -> str:
    return type(asyncio.get_running_loop()).__module__.partition(".")[0]


@pytest.mark.parametrize(("wanted", "found"), [("", "uvloop"), ("uvloop", "uvloop"), ("asyncio", "asyncio")])
def test_uvloop_is_used_unless_asyncio_is_asked_for(
    wanted: str, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(loop.VARIABLE, wanted)
    assert loop.run(kind()) == found


def test_asyncio_serves_where_uvloop_cannot_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(loop.VARIABLE, raising=False)
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert loop.run(kind()) == "asyncio"


@pytest.mark.parametrize("wanted", ["uvloop", "curio"])
def test_a_loop_that_there_is_not_is_told(wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(loop.VARIABLE, wanted)
    monkeypatch.setitem(sys.modules, "uvloop", None)
    with pytest.raises(CliError, match=rf"TIELINE_LOOP is `{wanted}`"):
        loop.run(kind())


def test_uvloop_is_not_loaded_where_asyncio_is_asked_for() -> None:
    code = (
        "import sys; from gateway.cli import loop; loop.factory('asyncio'); sys.exit('uvloop' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
