"""OAuth towards upstream servers: tokens are got once, kept privately, refreshed before anybody is asked."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from gateway.config.peer import OAuthConfig
from gateway.runtime.oauth import PeerAuth, peer_auth
from gateway.runtime.oauth_store import token_file
from transports.base import TransportError

BASE = "http://localhost:9"
URL = f"{BASE}/mcp"


@dataclass
class Upstream:
    """A resource server and its authorization server in one, without a socket."""

    good: set[str] = field(default_factory=set[str])
    refresh: bool = True
    expires_in: int = 3600
    deny: bool = False
    registrations: int = 0
    grants: list[str] = field(default_factory=list[str])
    authorizations: list[str] = field(default_factory=list[str])
    requests: list[str] = field(default_factory=list[str])
    hold: asyncio.Event = field(default_factory=asyncio.Event)
    methods: tuple[str, ...] = ("none", "client_secret_basic", "client_secret_post")
    scope_needed: str | None = None

    def app(self) -> Starlette:
        well_known = "/.well-known/oauth-"
        return Starlette(
            routes=[
                Route("/mcp", self.resource, methods=["POST"]),
                Route(well_known + "protected-resource/mcp", self.resource_metadata),
                Route(well_known + "authorization-server", self.server_metadata),
                Route("/register", self.register, methods=["POST"]),
                Route("/authorize", self.authorize),
                Route("/as/token", self.token, methods=["POST"]),
            ]
        )

    async def resource(self, request: Request) -> Response:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        self.requests.append(token)
        if token not in self.good:
            return Response(status_code=401, headers={"www-authenticate": 'Bearer scope="read"'})
        if self.scope_needed is not None:
            challenge = f'Bearer error="insufficient_scope", scope="{self.scope_needed}"'
            self.scope_needed = None
            return Response(status_code=403, headers={"www-authenticate": challenge})
        if await request.body() == b"slow":
            await self.hold.wait()
        return Response("fine")

    async def resource_metadata(self, request: Request) -> Response:
        return JSONResponse({"resource": URL, "authorization_servers": [BASE]})

    async def server_metadata(self, request: Request) -> Response:
        endpoints = {
            f"{name}_endpoint": f"{BASE}/{path}"
            for name, path in (
                ("authorization", "authorize"),
                ("token", "as/token"),
                ("registration", "register"),
            )
        }
        more = {
            "issuer": BASE,
            "response_types_supported": ["code"],
            "token_endpoint_auth_methods_supported": list(self.methods),
        }
        return JSONResponse(endpoints | more)

    async def register(self, request: Request) -> Response:
        self.registrations += 1
        return JSONResponse({**await request.json(), "client_id": "registered"}, status_code=201)

    async def authorize(self, request: Request) -> Response:
        query = request.query_params
        self.authorizations.append(query.get("scope", ""))
        answer = "error=access_denied" if self.deny else "code=abc"
        return RedirectResponse(f"{query['redirect_uri']}?{answer}&state={query['state']}")

    async def token(self, request: Request) -> Response:
        form = parse_qs((await request.body()).decode())
        grant = form["grant_type"][0]
        self.grants.append(f"{grant} {request.headers.get('authorization', '').split(' ')[0]}".strip())
        token = f"token-{len(self.grants)}"
        self.good = {token}
        more = {"refresh_token": f"refresh-{len(self.grants)}"} if self.refresh else {}
        return JSONResponse(
            {"access_token": token, "token_type": "Bearer", "expires_in": self.expires_in} | more
        )


@dataclass
class World:
    """One upstream, one directory, and somebody who logs in whenever asked to."""

    upstream: Upstream
    directory: Path
    asked: int = 0
    secrets: list[str] = field(default_factory=list[str])
    config: OAuthConfig = field(default_factory=OAuthConfig)

    def auth(self) -> PeerAuth:
        return peer_auth(
            "drive",
            URL,
            self.config,
            prompt=self.log_in,
            learned=self.secrets.append,
            directory=self.directory,
        )

    def client(self, auth: PeerAuth | None = None) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.ASGITransport(self.upstream.app()), auth=auth, timeout=10)

    async def log_in(self, peer: str, url: str) -> None:
        self.asked += 1
        async with self.client() as browser:
            back = (await browser.get(url)).headers["location"]
        await visit(back)


async def visit(url: str) -> bytes:
    """Go to a loopback URL as a browser does, and return all that comes."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    target = f"{parts.path}?{parts.query}"
    writer.write(f"GET {target} HTTP/1.1\r\nhost: {parts.netloc}\r\n\r\n".encode())
    try:
        return await asyncio.wait_for(reader.read(), 10)
    finally:
        writer.close()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(Upstream(), tmp_path)


def play(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a scene, bounded."""

    async def bounded() -> None:
        async with asyncio.timeout(30):
            await scene()

    asyncio.run(bounded())


def test_a_server_that_asks_for_a_token_gets_one_and_the_next_call_needs_nobody(world: World) -> None:
    async def scene() -> None:
        auth = world.auth()
        async with world.client(auth) as client:
            for _ in range(3):
                assert (await client.post(URL)).status_code == 200
        auth.close()

    play(scene)
    assert world.asked == 1
    assert world.upstream.requests == ["", "token-1", "token-1", "token-1"]
    assert world.secrets == ["token-1", "refresh-1"]


def test_tokens_lie_in_a_file_that_only_the_owner_reads(world: World) -> None:
    async def scene() -> None:
        auth = world.auth()
        async with world.client(auth) as client:
            await client.post(URL)
        auth.close()

    play(scene)
    files = list(world.directory.iterdir())
    assert files == [token_file(URL, world.directory)]
    assert stat.S_IMODE(files[0].stat().st_mode) == 0o600
    assert "localhost" not in files[0].name


def test_a_restarted_gateway_logs_nobody_in_again_and_keeps_its_registration(world: World) -> None:
    async def scene() -> None:
        for _ in range(2):
            auth = world.auth()
            async with world.client(auth) as client:
                assert (await client.post(URL)).status_code == 200
            auth.close()

    play(scene)
    assert (world.asked, world.upstream.registrations) == (1, 1)
    assert world.secrets == ["token-1", "refresh-1"] * 2


def test_a_token_that_ran_out_while_nothing_ran_is_refreshed_before_it_is_shown(world: World) -> None:
    async def scene() -> None:
        world.upstream.expires_in = -10
        for _ in range(2):
            auth = world.auth()
            async with world.client(auth) as client:
                assert (await client.post(URL)).status_code == 200
            auth.close()
            world.upstream.expires_in = 3600

    play(scene)
    assert world.asked == 1
    assert world.upstream.requests == ["", "token-1", "token-2"]


def test_a_token_that_is_refused_is_refreshed_before_anybody_is_asked(world: World) -> None:
    async def scene() -> None:
        auth = world.auth()
        async with world.client(auth) as client:
            await client.post(URL)
            world.upstream.good = set()
            assert (await client.post(URL)).status_code == 200
        auth.close()

    play(scene)
    assert world.asked == 1
    assert world.upstream.grants == ["authorization_code", "refresh_token"]
    assert world.upstream.requests == ["", "token-1", "token-1", "token-2"]


def test_calls_with_a_good_token_do_not_wait_for_each_other(world: World) -> None:
    async def scene() -> None:
        auth = world.auth()
        async with world.client(auth) as client:
            await client.post(URL)
            slow = asyncio.create_task(client.post(URL, content=b"slow"))
            while len(world.upstream.requests) < 3:
                await asyncio.sleep(0)
            assert (await client.post(URL)).status_code == 200
            assert not slow.done()
            world.upstream.hold.set()
            assert (await slow).status_code == 200
        auth.close()

    play(scene)


def test_many_first_calls_ask_once(world: World) -> None:
    async def scene() -> None:
        auth = world.auth()
        async with world.client(auth) as client:
            answers = await asyncio.gather(*(client.post(URL) for _ in range(8)))
            assert {answer.status_code for answer in answers} == {200}
        auth.close()

    play(scene)
    assert (world.asked, world.upstream.registrations) == (1, 1)


def test_a_call_that_needs_more_scope_asks_for_it_besides_what_was_granted(world: World) -> None:
    async def scene() -> None:
        auth = world.auth()
        async with world.client(auth) as client:
            await client.post(URL)
            world.upstream.scope_needed = "write"
            assert (await client.post(URL)).status_code == 200
        auth.close()

    play(scene)
    assert world.upstream.authorizations == ["read", "read write"]


def test_configured_scopes_are_asked_for_besides_what_the_server_demands(world: World) -> None:
    world.config = OAuthConfig(scopes=["mail"])

    async def scene() -> None:
        auth = world.auth()
        async with world.client(auth) as client:
            await client.post(URL)
        auth.close()

    play(scene)
    assert world.upstream.authorizations == ["mail read"]


@pytest.mark.parametrize(
    ("methods", "grant"),
    [
        (("client_secret_basic", "client_secret_post"), "authorization_code Basic"),
        (("client_secret_post",), "authorization_code"),
    ],
)
def test_a_registered_client_authenticates_as_the_server_knows_it(
    world: World, methods: tuple[str, ...], grant: str
) -> None:
    world.config = OAuthConfig(client_id="me", client_secret="mine")
    world.upstream.methods = methods

    async def scene() -> None:
        auth = world.auth()
        async with world.client(auth) as client:
            assert (await client.post(URL)).status_code == 200
        auth.close()

    play(scene)
    assert world.upstream.registrations == 0
    assert world.upstream.grants == [grant]


def test_a_refused_login_is_a_denied_fault_and_the_next_call_opens_no_browser(world: World) -> None:
    world.upstream.deny = True

    async def scene() -> None:
        auth = world.auth()
        async with world.client(auth) as client:
            for _ in range(2):
                with pytest.raises(TransportError, match=r"peer drive wants OAuth.*access_denied") as caught:
                    await client.post(URL)
                assert caught.value.reason == "denied"
        auth.close()

    play(scene)
    assert world.asked == 1


def test_the_redirect_takes_only_its_own_path_and_only_one_answer(world: World) -> None:
    seen: list[bytes] = []

    async def scene() -> None:
        plain = world.log_in

        async def meddle(peer: str, url: str) -> None:
            back = parse_qs(urlsplit(url).query)["redirect_uri"][0]
            seen.append(await visit(back.replace("/callback", "/elsewhere") + "?code=evil"))
            seen.append(await visit(back))
            await plain(peer, url)
            seen.append(await visit(back + "?code=evil"))

        world.log_in = meddle
        auth = world.auth()
        async with world.client(auth) as client:
            assert (await client.post(URL)).status_code == 200
        auth.close()

    play(scene)
    assert [answer.split(b"\r\n")[0] for answer in seen] == [
        b"HTTP/1.1 404 Not Found",
        b"HTTP/1.1 400 Bad Request",
        b"HTTP/1.1 409 Conflict",
    ]


def test_a_metadata_url_that_is_no_https_url_is_refused_at_once(world: World) -> None:
    world.config = OAuthConfig(client_metadata_url="http://example.com/client.json")
    with pytest.raises(TransportError, match="OAuth for peer drive cannot be set up"):
        world.auth()
