"""Takes a person to an authorization page and waits for the browser to come back to a loopback port.

Owns the port, the one request that is read on it, and the ways of showing a URL. Judges nothing of what comes
back: the OAuth provider does.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import webbrowser
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias
from urllib.parse import parse_qs, urlsplit

from mcp.client.auth import AuthorizationCodeResult, OAuthFlowError

CALLBACK_PATH: Final = "/callback"
PERSON_S: Final = 300.0
"""How long somebody may take to log in."""
_LINE_S: Final = 5.0
_LONGEST_LINE: Final = 16 * 1024
_PAGE: Final = "<!doctype html><meta charset=utf-8><title>Tieline</title><p>{}</p>"

Prompt: TypeAlias = Callable[[str, str], Awaitable[None]]
"""Shows somebody a URL: called with the peer's name and the URL of the authorization page."""


async def open_browser(peer: str, url: str) -> None:
    """Print the URL to stderr and, where there is a browser (`BROWSER` or a desktop), open it."""
    sys.stderr.write(f"tieline: peer {peer} wants you to log in: {url}\n")
    sys.stderr.flush()
    await asyncio.to_thread(webbrowser.open, url)


class Redirect:
    """A loopback port that a browser is sent back to: ours from the start, open while one is awaited."""

    def __init__(self, port: int = 0, preferred: int | None = None) -> None:
        """Bind `port`; where that is 0, `preferred` if it is free, else any.

        Raises:
            OSError: the port is taken.
        """
        self._socket = _bind(port, preferred)
        self._come_back: asyncio.Future[AuthorizationCodeResult] | None = None
        self._server: asyncio.Server | None = None

    @property
    def uri(self) -> str:
        """The redirect URI to register and ask for."""
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}{CALLBACK_PATH}"

    async def listen(self) -> None:
        """Open the port, before the browser is sent away."""
        if self._server is not None:
            self._server.close()
        self._come_back = asyncio.get_running_loop().create_future()
        copy = self._socket.dup()
        self._server = await asyncio.start_server(self._connected, sock=copy, limit=_LONGEST_LINE)

    async def result(self) -> AuthorizationCodeResult:
        """Wait for the browser and close the port.

        Raises:
            OAuthFlowError: nobody came back in time, or the server said no.
        """
        assert self._come_back is not None
        assert self._server is not None
        try:
            async with asyncio.timeout(PERSON_S):
                return await self._come_back
        except TimeoutError:
            raise OAuthFlowError(f"nobody logged in within {PERSON_S:.0f} s") from None
        finally:
            self._server.close()

    def close(self) -> None:
        """Give the port back."""
        if self._server is not None:
            self._server.close()
        self._socket.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_LINE_S):
                request = (await reader.readline()).decode("latin-1").split(" ")
                while (await reader.readline()).strip():
                    pass
            status, said = self._read(request)
            body = _PAGE.format(said).encode()
            head = f"HTTP/1.1 {status}\r\ncontent-type: text/html\r\ncontent-length: {len(body)}\r\n"
            writer.write(head.encode() + b"connection: close\r\n\r\n" + body)
            await writer.drain()
        except (TimeoutError, ValueError, ConnectionError):
            pass  # not a browser that comes back
        finally:
            writer.close()

    def _read(self, request: list[str]) -> tuple[str, str]:
        target = urlsplit(request[1] if len(request) == 3 else "")
        if request[0] != "GET" or target.path != CALLBACK_PATH or self._come_back is None:
            return "404 Not Found", "There is nothing here."
        if self._come_back.done():
            return "409 Conflict", "This login has ended already."
        query = parse_qs(target.query)
        if any(len(values) > 1 for values in query.values()):
            self._come_back.set_exception(OAuthFlowError("the authorization response repeats a parameter"))
        elif "error" in query:
            self._come_back.set_exception(
                OAuthFlowError(f"the authorization server refused: {query['error'][0][:200]}")
            )
        elif "code" in query:
            first = {name: values[0] for name, values in query.items()}
            self._come_back.set_result(
                AuthorizationCodeResult(code=first["code"], state=first.get("state"), iss=first.get("iss"))
            )
            return "200 OK", "You are logged in. This window can be closed."
        else:
            return "400 Bad Request", "The authorization server sent no code."
        return "400 Bad Request", "The login was refused."


def _bind(port: int, preferred: int | None) -> socket.socket:
    for candidate in (port,) if port or preferred is None else (preferred, 0):
        bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind(("127.0.0.1", candidate))
        except OSError:
            bound.close()
            if candidate == port:
                raise
        else:
            bound.setblocking(False)  # noqa: FBT003 - the standard library's own
            return bound
    raise AssertionError("unreachable")
