"""What tools a gateway has, asked before a run that needs some: what it lacks would fail in each call, or pass unseen.

Owns the handshake and the pages of the list. Which tools are needed, and what is said where one is missing, is for
whoever asks.
"""

from __future__ import annotations

import msgspec

from loadtest.crowd import raw_clients
from loadtest.crowd.green import Late
from loadtest.crowd.place import Place, PlaceError
from loadtest.crowd.plan import is_error
from loadtest.crowd.raw_clients import Client, Gone
from loadtest.crowd.voice import said_of

PATIENCE_S = 30.0
PAGES = 1000
INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
INITIALIZE = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"clientInfo":{"name":"tieline-load","version":"1"}}}'
)


class _Tool(msgspec.Struct):
    name: str


class _Page(msgspec.Struct):
    tools: list[_Tool]
    cursor: str | None = msgspec.field(default=None, name="nextCursor")


class _Answer(msgspec.Struct):
    result: _Page


def client_of(place: Place, answerer: raw_clients.Answerer = raw_clients.nobody) -> Client:
    """A new connection of an agent that opens a session, not yet open."""
    if place.transport == "stdio":
        return raw_clients.StdioClient(place.command, place.environment, answerer)
    if place.transport == "http":
        return raw_clients.HttpClient(place.url, place.headers, answerer)
    return raw_clients.WebSocketClient(place.url, place.headers, answerer)


def names(place: Place) -> set[str]:
    """The names of all tools.

    Raises:
        PlaceError: The gateway cannot be asked.
    """
    client = client_of(place)
    where = place.url or "on stdio"
    try:
        client.open()
        _asked(client, 1, INITIALIZE)
        client.tell(INITIALIZED)
        found: set[str] = set()
        page = _Page([], "")
        for number in range(2, PAGES):
            params = msgspec.json.encode({"cursor": page.cursor} if page.cursor else {})
            body = b'{"jsonrpc":"2.0","id":%d,"method":"tools/list","params":%b}' % (number, params)
            page = msgspec.json.decode(_asked(client, number, body), type=_Answer).result
            found |= {tool.name for tool in page.tools}
            if not page.cursor:
                break
        return found
    except Gone as gone:
        raise PlaceError(str(gone)) from None
    except Late:
        raise PlaceError(f"the gateway {where} has not told its tools in {PATIENCE_S:g} s") from None
    except (msgspec.DecodeError, ValueError) as fault:
        raise PlaceError(f"the gateway {where} does not tell its tools: {fault}") from None
    finally:
        client.close()


def _asked(client: Client, id_: int, body: bytes) -> bytes:
    """The answer, which is a result. Raises `ValueError` where it is none, and as `Client.ask`."""
    answer = client.ask(id_, body, PATIENCE_S)
    if is_error(answer):
        raise ValueError(said_of(answer))
    return answer
