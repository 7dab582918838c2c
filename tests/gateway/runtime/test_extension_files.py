"""Extensions on a real disk: found, trusted, changed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gateway.config import Config, ConfigError
from gateway.config.discovery import Discovery
from gateway.config.extensions import ExtensionsConfig
from gateway.runtime.extension_files import (
    Disk,
    look_around,
    pinned,
    read_trusted,
    trust,
    trusted_file,
    with_extensions,
)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"TIELINE_STATE_DIR": str(tmp_path / "state"), "PI_CODING_AGENT_DIR": str(tmp_path / "agent")}


def put(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "run.py").write_text("print()\n")
    manifest = {"name": name, "version": "1", "command": ["python3", "run.py"]}
    (folder / "extension.json").write_text(json.dumps(manifest))
    return folder


def around(tmp_path: Path, environ: dict[str, str], paths: list[str] | None = None) -> Discovery:
    config = Config(
        source=str(tmp_path / "project" / "tieline.toml"), extensions=ExtensionsConfig(paths=paths or [])
    )
    return look_around(config, environ)


def test_extensions_of_the_project_and_of_the_user_are_found(tmp_path: Path, environ: dict[str, str]) -> None:
    put(tmp_path / "project" / ".pi" / "extensions" / "a", "a")
    put(tmp_path / "agent" / "extensions" / "b", "b")
    named = put(tmp_path / "named", "c")

    found = around(tmp_path, environ, paths=[str(named)])

    assert [(one.name, one.status) for one in found.found] == [
        ("c", "served"),
        ("a", "untrusted"),
        ("b", "served"),
    ]
    config = with_extensions(Config(), found)
    assert {name: peer.cwd for name, peer in config.peers.items()} == {
        "c": str(named),
        "b": str(tmp_path / "agent" / "extensions" / "b"),
    }


def test_trust_holds_until_the_manifest_or_the_program_changes(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    folder = put(tmp_path / "project" / ".pi" / "extensions" / "a", "a")

    trust([pinned(one) for one in around(tmp_path, environ).found], environ)
    assert [one.status for one in around(tmp_path, environ).found] == ["served"]
    assert trusted_file(environ).stat().st_mode & 0o777 == 0o600

    (folder / "run.py").write_text("print('another')\n")
    assert [one.status for one in around(tmp_path, environ).found] == ["untrusted"]

    trust([pinned(one) for one in around(tmp_path, environ).found], environ)
    assert [one.status for one in around(tmp_path, environ).found] == ["served"]
    assert len(read_trusted(environ)) == 1

    manifest = json.loads((folder / "extension.json").read_text())
    (folder / "extension.json").write_text(json.dumps({**manifest, "env": {"A": "1"}}))
    assert [one.status for one in around(tmp_path, environ).found] == ["untrusted"]


def test_what_is_trusted_is_what_was_shown_and_not_what_came_since(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    folder = put(tmp_path / "project" / ".pi" / "extensions" / "a", "a")
    [found] = around(tmp_path, environ).found
    shown = pinned(found)

    (folder / "run.py").write_text("print('another')\n")
    trust([shown], environ)
    assert [one.status for one in around(tmp_path, environ).found] == ["untrusted"]

    (folder / "extension.json").write_text('{"name": "a", "version": "2", "command": ["sh"]}')
    with pytest.raises(ConfigError, match="has changed meanwhile"):
        pinned(found)


def test_a_file_of_trust_that_others_may_write_or_that_is_wrong_is_refused(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    put(tmp_path / "project" / ".pi" / "extensions" / "a", "a")
    trust([pinned(one) for one in around(tmp_path, environ).found], environ)

    trusted_file(environ).chmod(0o666)
    with pytest.raises(ConfigError, match="can be written by others"):
        around(tmp_path, environ)
    trusted_file(environ).chmod(0o600)
    trusted_file(environ).write_text("{}]")
    with pytest.raises(ConfigError, match="cannot be used"):
        around(tmp_path, environ)


def test_what_is_no_file_or_too_large_a_file_is_broken_and_never_waited_for(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    folder = put(tmp_path / "agent" / "extensions" / "a", "a")
    (folder / "extension.json").write_bytes(b" " * (1024 * 1024 + 1))
    pipe = tmp_path / "agent" / "extensions" / "p"
    pipe.mkdir()
    os.mkfifo(pipe / "extension.json")

    found = around(tmp_path, environ)

    assert found.found == ()
    assert [mistake.message for mistake in found.broken] == ["cannot be read: it has more than 1048576 bytes"]
    with pytest.raises(OSError, match="no regular file"):
        Disk().read(str(pipe / "extension.json"))
