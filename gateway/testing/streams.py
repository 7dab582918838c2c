"""A core's connection to a gateway in this process, as the streams that the MCP SDK's client wants.

Owns the crossing from links to streams and back. Needs the SDK only when it is used.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio

from transports.base import Acceptor, Origin, TransportError
from transports.memory import connect_memory

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

MOST_WAITING = 10_000
"""Messages that may wait for a client that does not read."""


class _Incoming:
    """A receiver that puts messages into a stream."""

    def __init__(self, stream: MemoryObjectSendStream[Any], parse: Any) -> None:
        self._stream = stream
        self._parse = parse

    def message(self, data: bytes, origin: Origin | None = None) -> None:
        """One message of the gateway."""
        self._stream.send_nowait(self._parse(data))

    def stray(self, data: bytes, why: str, *, size: int) -> None:
        """Nothing stray comes of a gateway."""

    def failed(self, fault: TransportError) -> None:
        """Nothing fails alone here."""

    def writable(self, ready: bool) -> None:  # noqa: FBT001 - the receiver's interface
        """A test's client is not held back."""

    def closed(self, fault: TransportError | None) -> None:
        """The gateway has ended the connection."""
        self._stream.close()


@asynccontextmanager
async def streams(acceptor: Acceptor) -> AsyncGenerator[tuple[Any, Any]]:
    """Connect, and give a stream to read from and one to write to, both of `SessionMessage`."""
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    def parse(data: bytes) -> SessionMessage:
        return SessionMessage(jsonrpc_message_adapter.validate_json(data, by_name=False))

    into, incoming = anyio.create_memory_object_stream[Any](MOST_WAITING)
    outgoing, out_of = anyio.create_memory_object_stream[Any](0)
    link = connect_memory(acceptor, _Incoming(into, parse))

    async def write(out: MemoryObjectReceiveStream[Any]) -> None:
        async with out:
            async for item in out:
                link.send(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode())

    async with anyio.create_task_group() as group:
        group.start_soon(write, out_of)
        try:
            yield incoming, outgoing
        finally:
            group.cancel_scope.cancel()
            link.close()
            for stream in (incoming, outgoing, into):
                stream.close()
