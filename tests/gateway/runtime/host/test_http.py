"""The host call `http`: what it answers, what it never reaches in any spelling, and where it stops."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import httpcore2
import pytest

from gateway.calls.host.bounds import Bounds
from gateway.policy.capability import CallError
from gateway.policy.model import Policy, Rule
from gateway.protocol.errors import Fault
from gateway.runtime.host.base import HostFault, serve
from gateway.runtime.host.beneath import Folders
from gateway.runtime.host.dialing import PrivateHosts, system_resolve
from gateway.runtime.host.http import Http
from tests.gateway.runtime.host.kit import ALL, Session, with_rules
from tests.gateway.runtime.process_kit import until
from tests.transports.tls_kit import certificate

PUBLIC = "93.184.216.34"
OTHER = "93.184.216.35"


class Wire(httpcore2.AsyncNetworkBackend):
    """Notes what is dialled. Public addresses lead to a server of the test, everything else to nowhere."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.dialled: list[str] = []

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        self.dialled.append(host)
        if host not in (PUBLIC, OTHER):
            raise httpcore2.ConnectError(f"{host} was dialled")
        network = cast("httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend())
        return await network.connect_tcp("127.0.0.1", self.port, timeout)


Answer = Callable[[str, dict[str, str], bytes], bytes | Awaitable[bytes]]


class Server:
    """Answers raw requests as a test says, one a connection, and keeps them."""

    def __init__(self, answer: Answer, tls: ssl.SSLContext | None = None) -> None:
        self._answer = answer
        self._tls = tls
        self.asked: list[tuple[str, dict[str, str], bytes]] = []
        self._open: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Server:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._open:
            task.cancel()
        if self._open:
            await asyncio.wait(self._open)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            await self._talk(reader, writer)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            self.asked.append((head[0], headers, body))
            answer = self._answer(head[0], headers, body)
            writer.write(answer if isinstance(answer, bytes) else await answer)
            await writer.drain()


def said(body: bytes, status: str = "200 OK", **headers: str) -> bytes:
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    head = "\r\n".join([f"HTTP/1.1 {status}", f"content-length: {len(body)}", *lines])
    return head.encode() + b"\r\n\r\n" + body


def always(answer: bytes) -> Answer:
    """Answer everything so."""
    return lambda line, headers, body: answer


class Web:
    """A session whose `http` reaches one server under the names of public hosts."""

    def __init__(
        self, folders: Folders, port: int, policy: Policy = ALL, bounds: Bounds | None = None,
        private: Iterable[str] = (), names: dict[str, list[str]] | None = None, trust: ssl.SSLContext | None = None,
    ) -> None:  # fmt: skip
        self.session = Session(folders, policy, bounds or Bounds())
        self.wire = Wire(port)
        self.asked: list[str] = []
        self.names = {"a.example": [PUBLIC], "b.example": [OTHER], **(names or {})}
        self.session.connectors["http"] = Http(
            PrivateHosts(private), resolve=self.resolve, network=self.wire, trust=trust
        )

    async def resolve(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        if host not in self.names:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return self.names[host]

    async def get(self, url: str = "http://a.example/", **params: Any) -> dict[str, Any]:
        return await self.session.call("http", url=url, **params)

    async def fault(self, url: str = "http://a.example/", **params: Any) -> Fault:
        return await self.session.fault("http", url=url, **params)


def asked(
    folders: Folders, answer: bytes | Answer, url: str = "http://a.example/", **params: Any
) -> dict[str, Any]:
    """Ask a server that answers so."""

    async def scene() -> dict[str, Any]:
        async with Server(answer if callable(answer) else always(answer)) as server:
            return await Web(folders, server.port).get(url, **params)

    return asyncio.run(scene())


def failed(folders: Folders, answer: bytes | Answer, bounds: Bounds | None = None, **params: Any) -> Fault:
    """Ask a server that answers so, and return what is wrong."""

    async def scene() -> Fault:
        async with Server(answer if callable(answer) else always(answer)) as server:
            return await Web(folders, server.port, bounds=bounds).fault(**params)

    return asyncio.run(scene())


# What it answers.


def test_a_request_is_answered_with_status_headers_and_text(folders: Folders) -> None:
    found = asked(folders, said("héllo".encode(), "404 Not Found", X_One="1", x_one="2"))
    assert found.pop("duration_ms") >= 0
    assert found == {
        "status": 404, "headers": {"content-length": "6", "x-one": "1, 2"}, "body": "héllo", "size_bytes": 6,
    }  # fmt: skip


def test_what_is_no_text_comes_as_base64(folders: Folders) -> None:
    found = asked(folders, said(b"\xff\x00"))
    assert (base64.b64decode(found["body_bytes"]), "body" in found) == (b"\xff\x00", False)


def test_a_request_is_sent_as_it_was_given(folders: Folders) -> None:
    async def scene() -> None:
        async with Server(always(said(b""))) as server:
            web = Web(folders, server.port)
            await web.get("http://A.example:80/p a/é?q=1 2#top".replace(" ", "%20"), headers={"X-Key": "k"})
            await web.get(method="POST", body="ä")
            await web.get(method="PUT", body_bytes=base64.b64encode(b"\xff").decode())
            (line, headers, _), (_, _, posted), (_, _, put) = server.asked
        assert line == "GET /p%20a/%C3%A9?q=1%202 HTTP/1.1"
        assert (headers["host"], headers["x-key"], headers["accept-encoding"]) == (
            "a.example",
            "k",
            "gzip, deflate",
        )
        assert (posted, put) == ("ä".encode(), b"\xff")

    asyncio.run(scene())


def test_a_packed_body_is_unpacked(folders: Folders) -> None:
    found = asked(folders, said(gzip.compress(b"packed"), Content_Encoding="gzip"))
    assert (found["body"], found["size_bytes"]) == ("packed", 6)


def test_a_body_comes_in_chunks_while_it_is_sent(folders: Folders) -> None:
    go, gone = asyncio.Event(), asyncio.Event()

    async def scene() -> tuple[list[dict[str, Any]], dict[str, Any]]:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n")
            await go.wait()
            writer.write(b"1\r\n\xc3\r\n2\r\n\xa9\xff\r\n1\r\nx\r\n0\r\n\r\n")
            writer.close()
            await writer.wait_closed()
            gone.set()

        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        async with server:
            web = Web(folders, server.sockets[0].getsockname()[1])
            call = asyncio.create_task(web.get(stream=True))
            await until(lambda: len(web.session.chunks) == 2, "the first chunk")
            assert not call.done()
            go.set()
            found = await call
            await gone.wait()
            return web.session.chunks, found

    chunks, found = asyncio.run(scene())
    assert chunks[:2] == [{"status": 200, "headers": {"transfer-encoding": "chunked"}}, {"body": "one"}]
    told = b"".join(
        base64.b64decode(each["body_bytes"]) if "body_bytes" in each else each["body"].encode()
        for each in chunks[1:]
    )
    assert told == b"one\xc3\xa9\xffx"
    assert (found["size_bytes"], "body" in found) == (7, False)


# What it never reaches.

PORT = 48_123
HOST_FORMS = (
    "127.0.0.1", "127.1", "127.0.1", "127.0.0.2", "127.255.255.254", "2130706433", "0x7f000001", "0x7F.1",
    "0177.0.0.1", "017700000001", "127.0.0.01", "0x7f.0.0.0x1", "127.0.0.1.", "0", "0.0.0.0", "0x0", "000",
    "localhost", "LOCALHOST", "localhost.", "ip6-localhost", "loopback.example", "[::1]", "[0:0:0:0:0:0:0:1]", "[::]",
    "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::ffff:0:127.0.0.1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]",
    "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[2001:0:7f00:1::]", "[fe80::1]", "[fe80::1%25lo]", "[fec0::1]",
    "[fc00::1]", "[fd00:ec2::254]", "169.254.169.254", "169.254.170.2", "2852039166", "10.0.0.1", "192.168.0.1",
    "172.16.0.1", "100.64.0.1", "100.100.100.200", "168.63.129.16", "192.0.0.192", "192.0.0.8", "198.18.0.1",
    "224.0.0.1", "240.0.0.1", "255.255.255.255", "\u2460\u2461\u2466.0.0.1", "\uff11\uff12\uff17.\uff10.\uff10.\uff11",
    "127\u30020\u30020\u30021", "\u24db\u24de\u24d2\u24d0\u24db\u24d7\u24de\u24e2\u24e3", "evil.example@127.0.0.1",
    "127.0.0.1@evil.example", "evil.example\\@127.0.0.1", "127.0.0.1#@evil.example", "127.0.0.1%2f", "%6c%6f%63alhost",
    "127.0.0.1%00.evil.example", "metadata.example", "mixed.example", "v6.example", "127.0.0.1\t", " 127.0.0.1", "[::1",
)  # fmt: skip
NAMES = {
    "localhost": ["::1", "127.0.0.1"], "ip6-localhost": ["::1"], "loopback.example": ["127.0.0.1"],
    "metadata.example": ["169.254.169.254"], "mixed.example": ["10.0.0.1", "::ffff:127.0.0.1"],
    "v6.example": ["64:ff9b::a9fe:a9fe", "2002:7f00:1::1"], "evil.example": ["127.0.0.1"],
}  # fmt: skip


@pytest.mark.parametrize("host", HOST_FORMS)
def test_no_spelling_reaches_an_address_that_is_not_public(folders: Folders, host: str) -> None:
    async def scene() -> None:
        web = Web(folders, PORT, names=NAMES)
        for url in (f"http://{host}:{PORT}/", f"https://{host}/"):
            try:
                found = await web.fault(url)
            except CallError:
                continue  # it has no host that could be decided about
            assert (found.code, found.reason) == ("denied", "private_address"), url
        assert web.wire.dialled == []

    asyncio.run(scene())


def test_the_systems_own_resolver_is_not_believed_either(folders: Folders) -> None:
    async def scene() -> None:
        web = Web(folders, PORT)
        web.session.connectors["http"] = Http(PrivateHosts(), resolve=system_resolve, network=web.wire)
        assert (await web.fault(f"http://localhost:{PORT}/")).reason == "private_address"
        assert web.wire.dialled == []

    asyncio.run(scene())


def test_a_name_is_resolved_once_and_what_was_looked_at_is_dialled(folders: Folders) -> None:
    """A resolver that answers otherwise the second time is never asked a second time."""

    async def scene() -> None:
        async with Server(always(said(b"ok"))) as server:
            web = Web(folders, server.port, names={"rebind.example": [PUBLIC]})
            answers = [[PUBLIC], ["127.0.0.1"]]

            async def rebinding(host: str, port: int) -> list[str]:
                web.asked.append(host)
                return answers.pop(0)

            web.session.connectors["http"] = Http(PrivateHosts(), resolve=rebinding, network=web.wire)
            assert (await web.get("http://rebind.example/"))["body"] == "ok"
            assert (web.asked, web.wire.dialled) == (["rebind.example"], [PUBLIC])
            assert (await web.fault("http://rebind.example/")).reason == "private_address"
            assert web.wire.dialled == [PUBLIC]

    asyncio.run(scene())


def test_of_several_addresses_only_public_ones_are_dialled(folders: Folders) -> None:
    async def scene() -> None:
        async with Server(always(said(b"ok"))) as server:
            web = Web(folders, server.port, names={"both.example": ["127.0.0.1", "10.0.0.1", PUBLIC]})
            assert (await web.get("http://both.example/"))["body"] == "ok"
            assert web.wire.dialled == [PUBLIC]

    asyncio.run(scene())


def test_the_next_address_is_tried_where_one_does_not_answer(folders: Folders) -> None:
    async def scene() -> None:
        async with Server(always(said(b"ok"))) as server:
            web = Web(folders, server.port, names={"both.example": ["2606:4700::1", PUBLIC]})
            assert (await web.get("http://both.example/"))["body"] == "ok"
            assert web.wire.dialled == ["2606:4700::1", PUBLIC]

    asyncio.run(scene())


def test_a_host_that_an_operator_has_named_is_reached_and_no_other_name_of_it(folders: Folders) -> None:
    async def scene() -> None:
        async with Server(always(said(b"ok"))) as server:
            web = Web(folders, server.port, names={"evil.example": ["127.0.0.1"], "localhost": ["127.0.0.1"]})
            web.session.connectors["http"] = Http(
                PrivateHosts([f"localhost:{server.port}"]), resolve=web.resolve
            )  # fmt: skip
            assert (await web.get(f"http://localhost:{server.port}/"))["body"] == "ok"
            for url in (f"http://127.0.0.1:{server.port}/", f"http://evil.example:{server.port}/"):
                assert (await web.fault(url)).reason == "private_address"
            assert len(server.asked) == 1

    asyncio.run(scene())


# Redirects.


def test_a_redirect_is_followed_as_browsers_do(folders: Folders) -> None:
    async def scene() -> None:
        def answer(line: str, headers: dict[str, str], body: bytes) -> bytes:
            path = line.split()[1]
            if path.startswith("/3"):
                return said(b"", f"{path[1:4]} Moved", Location="/end?x#y")
            return said(json.dumps([line, headers.get("content-type"), body.decode()]).encode())

        async with Server(answer) as server:
            web = Web(folders, server.port)
            for status, method, expected in (
                (301, "POST", "GET"), (302, "POST", "GET"), (303, "PUT", "GET"), (307, "POST", "POST"),
                (308, "PUT", "PUT"), (301, "PUT", "PUT"),
            ):  # fmt: skip
                found = await web.get(
                    f"http://a.example/{status}", method=method, body="b", headers={"Content-Type": "text/x"}
                )
                line, kind, body = json.loads(found["body"])
                assert line == f"{expected} /end?x HTTP/1.1"
                assert (kind, body) == ((None, "") if expected == "GET" else ("text/x", "b"))

    asyncio.run(scene())


def test_no_secret_goes_along_to_another_origin(folders: Folders) -> None:
    async def scene() -> None:
        def answer(line: str, headers: dict[str, str], body: bytes) -> bytes:
            there = "http://b.example/there" if line.startswith("GET /away") else "/stay2"
            return said(b"") if "there" in line or "stay2" in line else said(b"", "302 Found", Location=there)

        secrets = {"Authorization": "Bearer s", "Cookie": "c=1", "X-Api-Key": "k", "Accept": "text/html"}
        async with Server(answer) as server:
            web = Web(folders, server.port)
            await web.get("http://a.example/away", headers=secrets)
            await web.get("http://a.example/stay", headers=secrets)
            away, stay = server.asked[1][1], server.asked[3][1]
        assert away["accept"] == stay["accept"] == "text/html"
        assert not {"authorization", "cookie", "x-api-key"} & set(away)
        assert {"authorization", "cookie", "x-api-key"} <= set(stay)
        assert web.wire.dialled == [PUBLIC, OTHER, PUBLIC, PUBLIC]

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("location", "code", "reason"),
    [("http://127.0.0.1/", "denied", "private_address"), ("http://169.254.169.254/latest", "denied", "private_address"),
     ("http://loop.example/", "denied", "private_address"), ("http://secret.example/", "denied", "out_of_scope"),
     ("http://2130706433/", "io", "redirect"), ("file:///etc/passwd", "io", "redirect"),
     ("gopher://a.example/", "io", "redirect"), ("http://u:p@a.example/", "io", "redirect"), ("//[", "io", "redirect")],
)  # fmt: skip
def test_every_redirect_is_decided_about_anew(
    folders: Folders, location: str, code: str, reason: str
) -> None:
    async def scene() -> None:
        async with Server(always(said(b"", "302 Found", Location=location))) as server:
            rules = with_rules(
                Rule(verdict="allow", extension="ext", capability="http"),
                Rule(verdict="deny", hosts=["secret.example"]),
            )
            web = Web(
                folders, server.port, rules, names={"loop.example": ["127.0.0.1"], "secret.example": [OTHER]}
            )
            found = await web.fault()
            assert (found.code, found.reason) == (code, reason)
            assert web.wire.dialled == [PUBLIC]

    asyncio.run(scene())


def test_redirects_end(folders: Folders) -> None:
    found = failed(folders, said(b"", "302 Found", Location="/again"))
    assert (found.code, found.reason, "more than 3" in found.message) == ("io", "redirect", True)


def test_a_redirect_is_given_or_refused_where_that_is_wanted(folders: Folders) -> None:
    moved = said(b"moved", "302 Found", Location="http://b.example/")
    found = asked(folders, moved, redirect="manual")
    assert (found["status"], found["headers"]["location"], found["body"]) == (
        302,
        "http://b.example/",
        "moved",
    )
    assert failed(folders, moved, redirect="error").reason == "redirect"


# Where it stops.


def test_a_body_over_the_bound_is_not_taken(folders: Folders) -> None:
    endless = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" + b"x" * 200_000
    found = failed(folders, endless, bounds=Bounds(response_bytes=100_000))
    assert (found.code, found.reason, found.details["errno"]) == ("io", "too_large", "EFBIG")


def test_a_bomb_is_not_unpacked(folders: Folders) -> None:
    bomb = said(gzip.compress(bytes(16 * 1024 * 1024)), Content_Encoding="gzip")
    found = failed(folders, bomb)
    assert (found.code, found.reason) == ("io", "bomb")


def test_a_request_body_over_the_bound_is_not_sent(folders: Folders) -> None:
    assert (
        failed(folders, said(b""), bounds=Bounds(request_bytes=3), method="POST", body="four").code
        == "invalid_request"
    )


def test_a_server_that_takes_too_long_is_a_timeout(folders: Folders) -> None:
    async def never(line: str, headers: dict[str, str], body: bytes) -> bytes:
        await asyncio.Event().wait()
        return b""

    found = failed(folders, never, timeout_ms=100)
    assert (found.code, found.reason) == ("timeout", "http_time")


def test_a_cancelled_request_lets_go_of_its_connection(folders: Folders) -> None:
    async def scene() -> None:
        gone = asyncio.Event()

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            begun.set()
            await reader.read()
            writer.close()
            await writer.wait_closed()
            gone.set()

        begun = asyncio.Event()
        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        async with server:
            web = Web(folders, server.sockets[0].getsockname()[1])
            work = web.session.work("http", {"url": "http://a.example/"})
            call = asyncio.create_task(serve(web.session.connectors, work, web.session.emit))
            await begun.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await gone.wait()

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("answer", "reason"),
    [(b"", "bad_response"), (b"no http\r\n\r\n", "bad_response"),
     (b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort", "bad_response"),
     (said(b"x", Content_Encoding="br"), "encoding"), (said(b"no gzip", Content_Encoding="gzip"), "damaged")],
)  # fmt: skip
def test_what_is_no_answer_is_an_io_fault(folders: Folders, answer: bytes, reason: str) -> None:
    found = failed(folders, answer)
    assert (found.code, found.reason) == ("io", reason)
    assert "a.example" in found.message or reason in ("encoding", "damaged")


def test_a_port_that_nobody_listens_on_has_its_posix_name(folders: Folders) -> None:
    async def scene() -> Fault:
        async with Server(always(b"")) as server:
            port = server.port
        web = Web(folders, port)
        return await web.fault()

    found = asyncio.run(scene())
    assert (found.code, found.details["errno"], found.outcome) == ("io", "ECONNREFUSED", "not_sent")


def test_a_name_that_nobody_has_is_an_io_fault(folders: Folders) -> None:
    async def scene() -> Fault:
        return await Web(folders, 1).fault("http://nobody.example/")

    found = asyncio.run(scene())
    assert (found.code, found.reason, found.details["errno"]) == ("io", "no_address", "ENOENT")


@pytest.mark.parametrize("name", ["a.example", "b.example"])
def test_a_certificate_is_held_against_the_name_and_not_the_address(
    folders: Folders, tmp_path: Path, name: str
) -> None:
    theirs, trust = certificate(tmp_path, "a.example")

    async def scene() -> dict[str, Any] | Fault:
        async with Server(always(said(b"safe")), theirs) as server:
            web = Web(folders, server.port, trust=trust)
            try:
                return await web.get(f"https://{name}/")
            except HostFault as fault:
                return fault.fault

    found = asyncio.run(scene())
    if name == "a.example":
        assert isinstance(found, dict)
        assert found["body"] == "safe"
    else:
        assert isinstance(found, Fault)
        assert (found.code, found.reason) == ("io", "tls")


@pytest.mark.parametrize(
    "params",
    [{"method": "TRACE"}, {"method": "GET", "body": "x"}, {"method": "POST", "body": "x", "body_bytes": "eA=="},
     {"headers": {"Host": "evil"}}, {"headers": {"X\r\nY": "1"}}, {"headers": {"X": "1\r\nEvil: 2"}},
     {"headers": {"Transfer-Encoding": "chunked"}}, {"headers": {"Proxy-Authorization": "x"}}, {"headers": {"X": "é"}},
     {"headers": {"X": "1", "x": "2"}}, {"timeout_ms": 0}, {"method": "POST", "body": "\ud800"},
     {"headers": {"Content-Length": "1"}}, {"redirect": "maybe"}],
)  # fmt: skip
def test_params_that_cannot_be_sent_are_an_invalid_request(folders: Folders, params: dict[str, Any]) -> None:
    found = failed(folders, said(b""), **params)
    assert (found.code, found.reason) == ("invalid_request", "bad_params")


def test_no_fault_tells_what_a_url_or_a_header_holds(folders: Folders) -> None:
    async def scene() -> None:
        for port, answer in ((1, b""), (0, b"broken\r\n\r\n")):
            async with Server(always(answer)) as server:
                web = Web(folders, port or server.port)
                found = await web.fault(
                    "http://a.example/s3cret?key=s3cret", headers={"Authorization": "s3cret"}
                )
                assert "s3cret" not in repr(found)

    asyncio.run(scene())
