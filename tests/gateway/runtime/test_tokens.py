"""The bearer token: made once, for its owner alone."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gateway.config.model import TcpListen
from gateway.runtime.tokens import TokenError, bearer_token, token_file


def test_the_first_run_makes_a_token_of_256_bits_that_only_its_owner_can_read(tmp_path: Path) -> None:
    path = tmp_path / "state" / "token"
    token = bearer_token(path)

    assert len(token) == 43
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert os.listdir(path.parent) == ["token"]


def test_later_runs_read_the_same_token(tmp_path: Path) -> None:
    assert bearer_token(tmp_path / "token") == bearer_token(tmp_path / "token")


def test_a_listener_says_where_its_token_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIELINE_STATE_DIR", str(tmp_path))
    assert token_file(TcpListen(port=1)) == tmp_path / "token"
    assert token_file(TcpListen(port=1, token_file="/etc/token")) == Path("/etc/token")


def test_the_default_place_is_the_state_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIELINE_STATE_DIR", str(tmp_path / "state"))

    assert bearer_token() == (tmp_path / "state" / "token").read_text().strip()


def test_gateways_that_start_at_once_agree_on_one_token(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        tokens = set(pool.map(bearer_token, [tmp_path / "token"] * 32))

    assert len(tokens) == 1
    assert os.listdir(tmp_path) == ["token"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_token_that_others_may_read_or_write_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "token"
    bearer_token(path)
    path.chmod(mode)

    with pytest.raises(TokenError) as caught:
        bearer_token(path)
    assert str(caught.value) == f"the token file `{path}` can be read by others; run `chmod 600 {path}`"


def test_a_token_of_a_person_is_taken_and_a_careless_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.touch(0o600)
    path.write_text("correct-horse-battery-staple\n")
    assert bearer_token(path) == "correct-horse-battery-staple"

    path.write_text("1234\n")
    with pytest.raises(TokenError, match="holds no token of 20 or more plain characters"):
        bearer_token(path)


def test_a_link_in_the_tokens_place_is_not_followed(tmp_path: Path) -> None:
    bearer_token(tmp_path / "real")
    (tmp_path / "token").symlink_to(tmp_path / "real")

    with pytest.raises(TokenError, match="cannot be used"):
        bearer_token(tmp_path / "token")


def test_a_token_where_none_can_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(TokenError, match=r"`.*file/token` cannot be used: "):
        bearer_token(tmp_path / "file" / "token")
