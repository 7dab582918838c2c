"""Listeners open one after the other, and what has been opened before one that cannot be is closed with the rest."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from gateway.config.mistakes import ConfigError
from gateway.config.model import Config, Dialect, ListenConfig, TlsConfig, UnixListen, WebSocketListen
from gateway.runtime.listening import Listeners
from tests.transports.wire_kit import run
from transports.base import Acceptor, Hello, Limits, Link, Receiver, TransportError


def acceptor(_dialect: Dialect) -> Acceptor:
    def accept(_link: Link, _hello: Hello) -> Receiver:
        raise AssertionError

    return accept


def listeners(listen: ListenConfig, *, insecure: bool = True) -> tuple[Listeners, list[str]]:
    learned: list[str] = []
    made = Listeners(
        Config(listen=listen),
        acceptor,
        limits=Limits(),
        mint=lambda: "0" * 32,
        learned=learned.append,
        insecure_loopback=insecure,
    )
    return made, learned


def test_an_address_that_cannot_be_had_is_told_by_its_key_and_the_others_are_closed(tmp_path: Path) -> None:
    path = tmp_path / "tieline.sock"

    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            both = ListenConfig(unix=UnixListen(path=str(path)), websocket=WebSocketListen(port=port))
            made, _ = listeners(both)
            with pytest.raises(ConfigError, match=rf"listen\.websocket\.port.*is {port}"):
                await made.start()
        assert [one["kind"] for one in made.addresses] == ["unix"]
        assert path.exists()
        await made.stop()
        assert not path.exists()

    run(main())


@pytest.mark.parametrize("missing", ["cert.pem", "key.pem"])
def test_of_a_certificate_and_its_key_the_one_that_is_not_there_is_named(
    missing: str, tmp_path: Path
) -> None:
    for name in {"cert.pem", "key.pem"} - {missing}:
        (tmp_path / name).touch()
    tls = TlsConfig(cert=str(tmp_path / "cert.pem"), key=str(tmp_path / "key.pem"))

    async def main() -> None:
        made, _ = listeners(ListenConfig(websocket=WebSocketListen(port=0, tls=tls)))
        with pytest.raises(TransportError, match=rf"/{missing}`, which `tls` names, cannot be read: No such"):
            await made.start()

    run(main())


@pytest.mark.parametrize("insecure", [False, True])
def test_a_bearer_token_is_asked_for_unless_this_machine_may_come_without(
    tmp_path: Path, insecure: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIELINE_STATE_DIR", str(tmp_path / "state"))

    async def main() -> None:
        made, learned = listeners(ListenConfig(websocket=WebSocketListen(port=0)), insecure=insecure)
        await made.start()
        assert len(learned) == len(made.token_files) == (0 if insecure else 1)
        assert all(learned[0] in Path(file).read_text() for file in made.token_files)
        await made.stop()

    run(main())
