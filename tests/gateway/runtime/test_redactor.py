"""The redactor of a gateway: it goes by the configuration's secrets and rules, under a key of the state directory."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.config import parse
from gateway.runtime.redactor import make_redactor
from recordings.errors import RecordingError

RULES = """
[record.redact]
keys = ["badge_number"]
patterns = ['\\d{3}-\\d{2}-\\d{4}']
allow_keys = ["session_token"]
[peers.a]
command = ["x"]
env = { API_KEY = "of-the-config" }
"""


def test_the_rules_of_the_configuration_are_gone_by(tmp_path: Path) -> None:
    each = make_redactor(parse(RULES, path=Path("/t.toml"), environ={}), tmp_path)
    body = {
        "badgeNumber": "77",
        "a": "123-45-6789",
        "session_token": "open",
        "b": "of-the-config",
        "token": "t",
    }

    out = json.loads(each.body(json.dumps(body).encode()))

    assert out["badgeNumber"].startswith("[REDACTED:named:")
    assert out["a"].startswith("[REDACTED:custom:")
    assert out["session_token"] == "open"
    assert out["b"].startswith("[REDACTED:known:")
    assert out["token"].startswith("[REDACTED:named:")


def test_the_key_is_kept_so_that_equal_secrets_are_marked_alike_in_another_run(tmp_path: Path) -> None:
    config = parse(RULES, path=Path("/t.toml"), environ={})

    first, second = (make_redactor(config, tmp_path).text("123-45-6789") for _ in range(2))

    assert first == second
    assert (tmp_path / "redaction.key").stat().st_mode & 0o777 == 0o600


SPOILT: dict[str, tuple[Callable[[Path], object], str]] = {
    "short": (lambda path: path.write_bytes(b"k" * 31), "has to have 32 bytes, and has 31"),
    "long": (lambda path: path.write_bytes(b"k" * 100), "has to have 32 bytes, and has 100"),
    "link": (lambda path: path.symlink_to("/dev/null"), "is a symbolic link"),
    "directory": (os.mkdir, "cannot be read: Is a directory"),
}


@pytest.mark.parametrize(("spoil", "why"), SPOILT.values(), ids=SPOILT)
def test_a_file_in_the_place_of_the_key_that_is_none_is_told_and_left(
    tmp_path: Path, spoil: Callable[[Path], object], why: str
) -> None:
    path = tmp_path / "redaction.key"
    spoil(path)
    config = parse(RULES, path=Path("/t.toml"), environ={})

    with pytest.raises(
        RecordingError, match=re.escape(f"`{path}`, {why}: put the right one there, or delete it")
    ):
        make_redactor(config, tmp_path)
    assert os.path.lexists(path)


def test_where_no_key_can_be_kept_one_of_this_run_serves(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    config = parse(RULES, path=Path("/t.toml"), environ={})

    assert make_redactor(config, tmp_path / "state").text("123-45-6789").startswith("[REDACTED:custom:")
