"""An extension's own traffic: told to a host that wants to know, heard from one that stands in for the service."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from adapters import kit
from adapters.kit.mcp_session import McpSession
from gateway.protocol.hops import ENVIRON, NOTIFICATION, PIECE_BYTES

Message = dict[str, Any]
HELLO: Message = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "x", "version": "1"},
}


class Line:
    """The host's end of a connection: keeps what is sent."""

    def __init__(self, app: kit.App) -> None:
        self.got: list[Message] = []
        self.session = McpSession(app)
        self.session.opened(self)  # pyright: ignore[reportArgumentType] - the part of a link that is used

    def send(self, message: bytes, stamp: object = None) -> None:
        self.got.append(json.loads(message))

    def says(self, **message: Any) -> None:
        self.session.message(json.dumps({"jsonrpc": "2.0", **message}).encode())

    @property
    def told(self) -> list[Message]:
        return [message["params"] for message in self.got if message.get("method") == NOTIFICATION]


def asking(hops: kit.Hops) -> kit.App:
    """An extension whose one tool tells its service something."""
    app = kit.App("teller", "1", hops=hops)

    @app.tool
    async def tell(word: str) -> str:
        """Tell."""
        hops.out("lsp:x", json.dumps({"jsonrpc": "2.0", "method": word}).encode())
        return word

    return app


def test_what_crosses_is_told_with_the_call_that_it_is_said_for_and_not_before_the_host_has_greeted() -> None:
    async def main() -> list[Message]:
        hops = kit.Hops("record")
        line = Line(asking(hops))
        hops.came("lsp:x", b'{"jsonrpc":"2.0","method":"early"}')
        assert line.got == []
        line.says(id=1, method="initialize", params=HELLO)
        line.says(id="a", method="tools/call", params={"name": "tell", "arguments": {"word": "hello"}})
        while not any(message.get("id") == "a" for message in line.got):
            await asyncio.sleep(0)
        return line.told

    assert asyncio.run(main()) == [
        {"hop": "lsp:x", "way": "in", "message": {"jsonrpc": "2.0", "method": "early"}},
        {"hop": "lsp:x", "way": "out", "message": {"jsonrpc": "2.0", "method": "hello"}, "call": "a"},
    ]


def test_a_host_that_wants_to_know_nothing_is_told_nothing() -> None:
    async def main() -> list[Message]:
        line = Line(asking(kit.Hops.wanted({})))
        line.says(id=1, method="initialize", params=HELLO)
        line.says(id=2, method="tools/call", params={"name": "tell", "arguments": {"word": "hello"}})
        while not any(message.get("id") == 2 for message in line.got):
            await asyncio.sleep(0)
        return line.told

    assert asyncio.run(main()) == []


def test_what_the_host_says_for_a_service_is_heard_by_who_listens_there() -> None:
    async def main() -> list[Message]:
        hops = kit.Hops.wanted({ENVIRON: "play"})
        line, heard = Line(asking(hops)), list[Message]()
        line.says(id=1, method="initialize", params=HELLO)
        hops.listen("lsp:x", lambda message: heard.append(json.loads(message)))
        for hop, way in (("lsp:x", "in"), ("lsp:y", "in"), ("lsp:x", "out")):
            line.says(method=NOTIFICATION, params={"hop": hop, "way": way, "message": {"hop": hop}})
        line.says(method=NOTIFICATION, params={"hop": "nothing"})
        line.says(method=NOTIFICATION, params={"hop": "lsp:x", "way": "in", "ended": {"how": "unheard"}})
        hops.listen("lsp:x", print, lambda how: heard.append(json.loads(how)))
        line.says(method=NOTIFICATION, params={"hop": "lsp:x", "way": "in", "ended": {"how": "crashed"}})
        hops.listen("lsp:x", None)
        line.says(method=NOTIFICATION, params={"hop": "lsp:x", "way": "in", "message": {}})
        return heard

    assert asyncio.run(main()) == [{"hop": "lsp:x"}, {"how": "crashed"}]


def test_a_long_message_goes_in_pieces_both_ways_and_is_heard_whole() -> None:
    hops, told, heard = kit.Hops("record"), list[bytes](), list[bytes]()
    hops.connect(told.append)
    whole = json.dumps({"jsonrpc": "2.0", "id": 1, "result": '\u00e9\u0001"' * PIECE_BYTES}).encode()
    hops.came("lsp:x", whole)
    assert len(told) > 3
    assert max(map(len, told)) < 3 * PIECE_BYTES

    playing = kit.Hops("play")
    playing.listen("lsp:x", heard.append)
    for message in told:
        playing.heard(json.dumps(json.loads(message)["params"]).encode())
    assert heard == [whole]


@pytest.mark.parametrize(
    ("value", "mode"), [("record", "record"), ("play", "play"), ("", None), ("yes", None)]
)
def test_only_what_is_known_can_be_wanted(value: str, mode: str | None) -> None:
    assert kit.Hops.wanted({ENVIRON: value}).mode == mode
