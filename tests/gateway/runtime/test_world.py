"""What a gateway tells of its world and keeps of it, without secrets."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from gateway.calls.exchange import Exchange
from gateway.calls.peer_state import Client
from gateway.config.model import Config
from gateway.config.peer import OAuthConfig, PeerConfig
from gateway.protocol.errors import Fault
from gateway.runtime.health import health
from gateway.runtime.oauth_redirect import Redirect
from gateway.runtime.world import World
from tests.transports.wire_kit import run

SECRET = "a-secret-of-the-upstream-server"


def test_what_a_peer_has_said_last_is_shown_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIELINE_STATE_DIR", str(tmp_path / "state"))

    async def main() -> None:
        peers = {"db": PeerConfig(command=["x"], scope="shared")}
        config = Config(peers=peers, secrets=frozenset((SECRET,)))
        world = World(config, record_dir=None)
        exchange = Exchange(config, world, version="0")
        peer = exchange.make_peer("db", peers["db"], Client("", b"", b""))
        said = f"db has refused `initialize`: bad key {SECRET}"
        peer.unreachable(Fault(code="io", message=said, reason="handshake"))
        exchange.shared["db"] = peer
        shown = health(config, exchange, world, uptime_s=1.0, addresses=[]).peers[0].last_error
        assert shown is not None
        assert shown.startswith("db has refused")
        assert SECRET not in shown
        await world.finish()

    run(main())


def test_connections_to_one_server_share_its_tokens_and_the_end_gives_the_ports_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIELINE_STATE_DIR", str(tmp_path))
    closed: list[Redirect] = []
    close = Redirect.close

    def counted(redirect: Redirect) -> None:
        closed.append(redirect)
        close(redirect)

    monkeypatch.setattr(Redirect, "close", counted)

    async def main() -> None:
        world = World(Config(), record_dir=None)
        one = world.auth("far", "https://far.example/mcp", OAuthConfig(scopes=["read"]))
        assert world.auth("far", "https://far.example/mcp", OAuthConfig(scopes=["read"])) is one
        others = [
            world.auth("far", "https://far.example/mcp", OAuthConfig(scopes=["write"])),
            world.auth("near", "https://near.example/mcp", OAuthConfig(scopes=["read"])),
        ]
        assert one not in others
        assert closed == []
        await world.finish()

    run(main())
    assert len(closed) == 3


def test_programs_of_extensions_are_known_before_one_of_them_asks_for_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIELINE_STATE_DIR", str(tmp_path / "state"))
    program = tmp_path / "extension.py"
    program.write_text("print()")
    peers = {
        "todo": PeerConfig(command=["python3", str(program)], dialect="pi", cwd=str(tmp_path)),
        "gone": PeerConfig(command=[str(tmp_path / "gone")], dialect="pi"),
    }

    async def main() -> None:
        world = cast("Any", World(Config(peers=peers), record_dir=None))
        world.warm_up()
        await asyncio.gather(*world._work)
        programs = world.authorities.programs
        hashed = dict(programs._hashes)
        assert str(program) in hashed
        programs.of(peers["todo"].command, "", str(tmp_path))
        assert programs._hashes == hashed
        await world.finish()

    run(main())
