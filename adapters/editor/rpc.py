"""MessagePack-RPC: requests, answers and notifications over one stream of bytes.

Owns the pending requests and what becomes of them when the stream ends. Knows nothing of Neovim but that its handles
are extension types.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias, cast

import msgpack

from adapters import kit

OnNotice: TypeAlias = Callable[[str, list[Any]], None]
READ_BYTES: Final = 64 * 1024
MOST_BYTES: Final = 64 * 1024 * 1024
"""The longest message that is taken."""
ANSWER_S = 5.0
"""How long the editor may take. It answers within a millisecond, unless it waits for a key."""
_REQUEST, _RESPONSE = 0, 1


class Writer(Protocol):
    """What is written to."""

    def write(self, data: bytes, /) -> None:
        """Queue bytes."""
        ...

    def close(self) -> None:
        """End the stream."""
        ...


class Rpc:
    """One connection. `on_notice` is called for every notification, `on_end` once when the other side has gone."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: Writer,
        on_notice: OnNotice,
        on_end: Callable[[], None],
    ) -> None:
        self.is_open = True
        self._reader, self._writer = reader, writer
        self._on_notice, self._on_end = on_notice, on_end
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._count = 0
        self._task = asyncio.get_running_loop().create_task(self._read())

    async def request(self, method: str, *params: Any, within_s: float | None = None) -> Any:
        """Ask and wait for the answer.

        Raises `kit.ToolError`: `io` where the other side has gone, `timeout` where it does not answer, `internal` with
        its own words where it refuses.
        """
        if not self.is_open:
            raise gone()
        self._count += 1
        waiting = self._pending[self._count] = asyncio.get_running_loop().create_future()
        number = self._count
        self._write([_REQUEST, number, method, list(params)])
        try:
            async with asyncio.timeout(ANSWER_S if within_s is None else within_s):
                return await waiting
        except TimeoutError:
            raise kit.ToolError(
                "timeout",
                "the editor does not answer: it waits for a key, at a prompt or a message, which a person must give it",
            ) from None
        finally:
            self._pending.pop(number, None)

    async def close(self) -> None:
        """End the connection."""
        self._writer.close()
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    def _write(self, message: list[Any]) -> None:
        self._writer.write(
            cast("bytes", cast("Any", msgpack).packb(message, unicode_errors="surrogateescape"))
        )

    async def _read(self) -> None:
        unpacker: Any = cast("Any", msgpack).Unpacker(
            raw=False, unicode_errors="surrogateescape", strict_map_key=False, max_buffer_size=MOST_BYTES
        )
        try:
            while data := await self._reader.read(READ_BYTES):
                unpacker.feed(data)
                for message in unpacker:
                    self._take(message)
        except (OSError, ValueError, cast("Any", msgpack).exceptions.UnpackException):
            pass  # what cannot be read any further is as good as gone
        finally:
            self.is_open = False
            for waiting in self._pending.values():
                if not waiting.done():
                    waiting.set_exception(gone())
            self._writer.close()
            self._on_end()

    def _take(self, message: Any) -> None:
        match message:
            case [2, str() as method, [*params]]:
                self._on_notice(method, params)
            case [1, int() as number, error, result]:
                waiting = self._pending.get(number)
                if waiting is None or waiting.done():
                    return
                if error is None:
                    waiting.set_result(result)
                else:
                    waiting.set_exception(kit.ToolError("internal", _words(error)))
            case [0, int() as number, *_]:
                self._write([_RESPONSE, number, "nothing is served here", None])
            case _:
                raise ValueError(f"no message of MessagePack-RPC: {str(message)[:80]}")


def gone() -> kit.ToolError:
    """What is told where there is no editor any more."""
    return kit.ToolError("io", "the editor has gone")


def _words(error: Any) -> str:
    """The words of an error, which Neovim gives as a type and a text."""
    match error:
        case [int(), str() as text]:
            return text
        case _:
            return str(error)
