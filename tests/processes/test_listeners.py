"""Who gets through the listeners of a whole gateway: Host, Origin, token and TLS, on websocket and HTTP alike."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gateway.runtime.tokens import bearer_token
from tests.processes.gateway_kit import (
    PATIENCE_S,
    ROOT,
    TIELINE,
    House,
    Message,
    echo,
    eventually,
    house,
    program,
    run,
    toml_of,
)
from tests.transports.tls_kit import certificate
from transports.guard import FAILURES_A_MINUTE

KINDS = ("websocket", "http")
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "c", "version": "1"},
}
BODY = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}).encode()
LET_IN = {"websocket": 101, "http": 200}
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}
POST = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "Content-Length": str(len(BODY)),
    "Connection": "close",
}


def port_of(here: House, kind: str) -> int:
    """The port of the listener, from the address that the gateway tells."""
    (url,) = [each["url"] for each in here.gateway.addresses() if each["kind"] == kind]
    return int(url.rpartition(":")[2].partition("/")[0])


async def knock(
    here: House, kind: str, *, tls: ssl.SSLContext | None = None, token: str | None = None, **headers: str
) -> int:
    """Ask to be let in with nothing but these headers; return the HTTP status."""
    port = port_of(here, kind)
    fields = {"Host": f"127.0.0.1:{port}", **(UPGRADE if kind == "websocket" else POST), **headers}
    if token is not None:
        fields["Authorization"] = f"Bearer {token}"
    method, body = ("GET", b"") if kind == "websocket" else ("POST", BODY)
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    async with asyncio.timeout(PATIENCE_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
        try:
            writer.write(f"{method} /mcp HTTP/1.1\r\n{head}\r\n".encode() + body)
            line = await reader.readline()
            return int(line.split()[1]) if line else 0
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


def listening(kind: str, **settings: Any) -> Message:
    return {"listen": {kind: settings}}


@pytest.mark.parametrize("kind", KINDS)
def test_nobody_gets_in_without_the_token_which_only_the_user_can_read(
    kind: str, tmp_path: Path, state: Path
) -> None:
    async def main() -> None:
        async with house(tmp_path, {"calc": echo()}, **listening(kind)) as here:
            file = state / "token"
            assert file.stat().st_mode & 0o777 == 0o600
            token = bearer_token(file)
            assert await knock(here, kind) == 401
            assert await knock(here, kind, token="wrong") == 401
            assert await knock(here, kind, token=token[:-1]) == 401
            assert await knock(here, kind, token=token) == LET_IN[kind]
            assert here.gateway.world.redactor.text(f"it is {token}").startswith("it is [REDACTED:known:")

    run(main())


def test_a_gateway_says_where_the_token_lies_beside_where_it_listens(tmp_path: Path) -> None:
    own = str(tmp_path / "own")
    listen: Message = {"http": {"port": 0}, "websocket": {"port": 0, "token_file": own}}
    with program(tmp_path, {"calc": echo()}, listen=listen) as gateway:
        run(eventually(lambda: gateway.said().count("bearer token") == 2, "the places of the tokens"))
        said = gateway.said()
    lines = [line.rpartition(" ")[2] for line in said.splitlines() if "bearer token" in line]
    assert sorted(lines) == sorted([own, str(tmp_path / "state" / "token")])
    assert not any(bearer_token(Path(line)) in said for line in lines)


@pytest.mark.parametrize("kind", KINDS)
def test_a_token_file_of_its_own_is_made_and_kept(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "keys" / "mine"

    async def main() -> None:
        for _ in range(2):
            async with house(tmp_path, {"calc": echo()}, **listening(kind, token_file=str(file))) as here:
                assert file.stat().st_mode & 0o777 == 0o600
                assert await knock(here, kind, token=bearer_token(file)) == LET_IN[kind]

    run(main())


@pytest.mark.parametrize("kind", KINDS)
def test_guessing_is_slowed_down_and_holds_up_nobody_who_has_the_token(
    kind: str, tmp_path: Path, state: Path
) -> None:
    async def main() -> None:
        async with house(tmp_path, {"calc": echo()}, **listening(kind)) as here:
            guesses = (knock(here, kind, token=f"guess-{n}") for n in range(FAILURES_A_MINUTE + 3))
            assert sorted(await asyncio.gather(*guesses)) == [401] * FAILURES_A_MINUTE + [429] * 3
            assert await knock(here, kind, token=bearer_token(state / "token")) == LET_IN[kind]

    run(main())


@pytest.mark.parametrize("kind", KINDS)
def test_foreign_hosts_and_web_pages_are_turned_away_but_those_that_are_allowed(
    kind: str, tmp_path: Path
) -> None:
    settings = {
        "insecure_loopback": True,
        "allowed_hosts": ["tools.example.com", "proxy.example.com:8443"],
        "allowed_origins": ["https://app.example.com"],
    }

    async def main() -> None:
        async with house(tmp_path, {"calc": echo()}, **listening(kind, **settings)) as here:
            port, let_in = port_of(here, kind), LET_IN[kind]
            hosts = {
                "evil.example.com": 403,
                f"evil.example.com:{port}": 403,
                "127.0.0.1": 403,
                f"127.0.0.1:{port + 1}": 403,
                f"localhost:{port}": let_in,
                f"[::1]:{port}": let_in,
                "tools.example.com": let_in,
                f"Tools.Example.com:{port}": let_in,
                "tools.example.com:1": 403,
                "proxy.example.com:8443": let_in,
                "proxy.example.com": 403,
            }
            assert {host: await knock(here, kind, Host=host) for host in hosts} == hosts
            origins = {
                "https://evil.example.com": 403,
                "null": 403,
                f"http://localhost:{port}": let_in,
                f"https://localhost:{port}": 403,
                "https://app.example.com": let_in,
                "https://app.example.com.evil.com": 403,
            }
            assert {origin: await knock(here, kind, Origin=origin) for origin in origins} == origins

    run(main())


@pytest.mark.parametrize("kind", KINDS)
def test_over_tls_everything_is_as_it_is_without(kind: str, tmp_path: Path, state: Path) -> None:
    _, trusting = certificate(tmp_path, "127.0.0.1")
    chain = str(tmp_path / "chain.pem")

    async def main() -> None:
        sections = listening(kind, tls={"cert": chain, "key": chain})
        async with house(tmp_path, {"calc": echo()}, **sections) as here:
            (url,) = [each["url"] for each in here.gateway.addresses()]
            assert url.startswith(("wss://127.0.0.1:", "https://127.0.0.1:"))
            token = bearer_token(state / "token")
            assert await knock(here, kind, tls=trusting) == 401
            assert await knock(here, kind, tls=trusting, token=token) == LET_IN[kind]
            assert await knock(here, kind, tls=trusting, token=token, Host="evil.example.com") == 403
            own = f"https://127.0.0.1:{port_of(here, kind)}"
            assert await knock(here, kind, tls=trusting, token=token, Origin=own) == LET_IN[kind]
            with pytest.raises(ssl.SSLCertVerificationError):
                await knock(here, kind, tls=ssl.create_default_context(), token=token)
            with contextlib.suppress(OSError):
                assert await knock(here, kind, token=token) in (0, 400)

    run(main())


@pytest.mark.parametrize("kind", KINDS)
def test_beyond_loopback_a_name_must_be_allowed_and_the_token_is_asked_for_whatever_the_command_says(
    kind: str, tmp_path: Path, state: Path
) -> None:
    from gateway.config.options import ServeOptions

    _, trusting = certificate(tmp_path, "127.0.0.1")
    chain = str(tmp_path / "chain.pem")
    sections = listening(
        kind, host="0.0.0.0", tls={"cert": chain, "key": chain}, allowed_hosts=["tools.example.com"]
    )
    options = ServeOptions(record_dir=tmp_path / "recordings", insecure_loopback=True)

    async def main() -> None:
        async with house(tmp_path, {"calc": echo()}, options=options, **sections) as here:
            token = bearer_token(state / "token")
            name = f"tools.example.com:{port_of(here, kind)}"
            assert await knock(here, kind, tls=trusting, Host=name) == 401
            assert await knock(here, kind, tls=trusting, token=token, Host=name) == LET_IN[kind]
            assert await knock(here, kind, tls=trusting, token=token, Host="192.0.2.1") == 403

    run(main())


def refused(tmp_path: Path, **sections: Any) -> str:
    """What `tieline run` says where it does not start."""
    path = tmp_path / "tieline.toml"
    path.write_text(toml_of({"calc": echo()}, **sections))
    done = subprocess.run(
        [*TIELINE, "run", str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (3, ""), done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"host": "0.0.0.0"}, ".host` is `0.0.0.0`, not loopback: that needs a `tls` section"),
        ({"host": "127.example.com"}, "not loopback"),
        ({"host": ""}, "not loopback"),
        (
            {"host": "0.0.0.0", "insecure_loopback": True, "tls": {"cert": "c.pem", "key": "k.pem"}},
            ".insecure_loopback` is for loopback only, and `host` is `0.0.0.0`",
        ),
        ({"tls": {"cert": "none.pem", "key": "none.pem"}}, "none.pem`, which `tls` names, cannot be read"),
        ({"tls": {"cert": "tieline.toml", "key": "tieline.toml"}}, "tieline.toml` cannot be used"),
        ({"token_file": "tieline.toml"}, "can be read by others; run `chmod 600"),
    ],
)
def test_what_would_not_be_safe_does_not_start_and_says_why(
    kind: str, settings: dict[str, Any], says: str, tmp_path: Path
) -> None:
    (tmp_path / "tieline.toml").touch(mode=0o644)
    assert says in refused(tmp_path, **listening(kind, **settings))
