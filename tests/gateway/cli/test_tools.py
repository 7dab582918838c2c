"""`tieline tools`: what is printed, written and answered for peers' tools."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.calls.accepted import Accepted, decode
from gateway.cli.check import show
from gateway.cli.output import CliError
from gateway.cli.tools import accept_tools, accepted_of, diff_tools, list_tools, offered
from gateway.config import Config, PeerConfig
from gateway.config.peer import ToolsConfig
from gateway.runtime.reports import PeerReport

DB = PeerReport(
    name="db", kind="stdio", ok=True, tools=[{"name": "query", "description": "Runs SQL.\nMore."}]
)
CHANGED = PeerReport(
    name="db", kind="stdio", ok=True, tools=[{"name": "query", "description": "Runs any SQL."}]
)


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(peers={"db": PeerConfig(command=["x"])}, source=str(tmp_path / "tieline.toml"))


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / ".tieline" / "tools.lock.json"


def test_what_is_accepted_is_written_beside_the_configuration_and_read_again(
    config: Config, lock: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert accepted_of(config) == Accepted()
    assert accept_tools([DB], accepted_of(config), lock, json=False) == 0

    assert (
        capsys.readouterr().out
        == f"added db/query\n  + Runs SQL.\n  + More.\naccepted 1 tool of 1 peer in `{lock}`\n"
    )
    assert accepted_of(config) == decode(lock.read_bytes())
    assert [path.name for path in lock.parent.iterdir()] == ["tools.lock.json"]
    assert diff_tools([DB], accepted_of(config), json=False) == 0
    assert capsys.readouterr().out == "all tools are as they were accepted\n"


def test_a_difference_ends_with_1_and_is_shown(
    config: Config, lock: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    accept_tools([DB], Accepted(), lock, json=True)
    capsys.readouterr()

    assert diff_tools([CHANGED], accepted_of(config), json=False) == 1
    assert capsys.readouterr().out == (
        'changed db/query\n  ~ /description: "Runs SQL.\\nMore." -> "Runs any SQL."\n'
    )
    assert diff_tools([CHANGED], accepted_of(config), json=True) == 1
    assert json.loads(capsys.readouterr().out)[0]["kind"] == "changed"


def test_the_list_says_of_each_tool_whether_it_was_accepted(
    config: Config, lock: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    accept_tools([DB], Accepted(), lock, json=True)
    capsys.readouterr()

    list_tools([CHANGED], accepted_of(config), config, json=True)
    assert json.loads(capsys.readouterr().out) == [
        {"peer": "db", "tool": "query", "state": "changed", "description": "Runs any SQL."}
    ]
    list_tools([DB], accepted_of(config), config, json=False)
    assert capsys.readouterr().out.splitlines()[-1].split() == ["db", "query", "accepted", "Runs", "SQL."]


def test_the_list_says_what_the_configuration_does_not_let_through(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tools = ToolsConfig(allow=["q*"], deny=["*_all"])
    config = Config(peers={"db": PeerConfig(command=["x"], tools=tools)})
    names = ("query", "query_all", "drop")
    report = PeerReport(name="db", kind="stdio", ok=True, tools=[{"name": name} for name in names])

    list_tools([report], Accepted(), config, json=True)
    states = [tool["state"] for tool in json.loads(capsys.readouterr().out)]
    assert states == ["new", "denied", "denied"]


def test_a_peer_that_does_not_answer_is_named_once(
    config: Config, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = PeerReport(name="db", kind="stdio", ok=False, error="db: cannot connect")
    other = PeerReport(name="fs", kind="stdio", ok=False, error="it is gone")

    def tried(config: Config) -> list[PeerReport]:
        return [failed, other, DB]

    monkeypatch.setattr("gateway.cli.tools.try_peers", tried)

    assert offered(config, None) == [DB]
    assert capsys.readouterr().err == "warning: db: cannot connect\nwarning: fs: it is gone\n"


def test_a_lock_file_that_was_edited_is_bad_input(config: Config, lock: Path) -> None:
    accept_tools([DB], Accepted(), lock, json=True)
    lock.write_text(lock.read_text().replace("Runs SQL", "Runs anything"))

    with pytest.raises(CliError, match="the definition of `query` of `db` was edited") as caught:
        accepted_of(config)
    assert caught.value.code == 3


def test_a_lock_file_that_cannot_be_written_is_one_sentence(config: Config, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CliError, match="cannot be written: ") as caught:
        accept_tools([DB], Accepted(), tmp_path / "file" / "tools.lock.json", json=True)
    assert caught.value.code == 3


def test_a_peer_that_is_not_configured_is_named(config: Config) -> None:
    with pytest.raises(CliError, match="there is no peer `bd`") as caught:
        offered(config, ["bd"])
    assert caught.value.hint == "The configuration names `db`"


def test_a_table_of_tried_peers_ends_with_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    failed = PeerReport(name="fs", kind="stdio", ok=False, error="cannot run `[x]`", hint="Install it")
    show([DB, failed])
    lines = capsys.readouterr().out.splitlines()

    assert lines[0].split() == ["peer", "kind", "result", "server", "protocol", "tools", "ready", "in"]
    assert lines[2].split() == ["db", "stdio", "ok", "1"]
    assert lines[3].split() == ["fs", "stdio", "failed"]
    assert lines[-2:] == ["fs: cannot run `[x]`", "hint: Install it"]


@pytest.mark.parametrize(("ready_ms", "said"), [(2695.4, "2.7 s"), (94.6, "94.6 ms")])
def test_how_long_a_peer_took_is_said_as_elsewhere(
    ready_ms: float, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show([PeerReport(name="db", kind="stdio", ok=True, tools=[], ready_ms=ready_ms)])

    assert capsys.readouterr().out.rstrip().endswith(said)
