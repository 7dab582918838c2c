"""The params of the host call `exec`, the environment that a command gets, and what is kept of its output.

Owns forms and bounds. Starts nothing.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from gateway.config.peer import INHERITED_ENV

Stream: TypeAlias = Literal["stdout", "stderr"]

_Ms: TypeAlias = Annotated[float, Meta(gt=0, le=2**31 - 1)]
_Text: TypeAlias = Annotated[str, Meta(max_length=128 * 1024)]
MOST_SIGNAL: Final = 64


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a command runs. Times are in milliseconds; the three spellings mean the same."""

    cwd: str = "."
    timeout: _Ms | None = None
    timeout_camel: _Ms | None = msgspec.field(default=None, name="timeoutMs")
    timeout_ms: _Ms | None = None
    buffer: Annotated[int, Meta(ge=0)] | None = msgspec.field(default=None, name="maxBuffer")
    """Bytes of output after which the command is ended."""
    stream: bool = False
    env: Annotated[dict[str, _Text], Meta(max_length=256)] = {}

    @property
    def limit_s(self) -> float | None:
        """Seconds that it may run, if it says."""
        named = [each for each in (self.timeout, self.timeout_camel, self.timeout_ms) if each is not None]
        return min(named) / 1000 if named else None


class ExecCall(msgspec.Struct, frozen=True, kw_only=True):
    """A program and its arguments. Never a line for a shell."""

    cmd: Annotated[str, Meta(min_length=1, max_length=4096)]
    args: Annotated[list[_Text], Meta(max_length=4096)] = []
    options: Options = Options()


def environment(ours: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Return the whole environment of a command: what finds programs and a home, and what the call gives.

    Raises:
        ValueError: If a name is none.
    """
    for name in given:
        if not name or "=" in name or "\0" in name or "\0" in given[name]:
            raise ValueError(f"{name[:64]!r} is no name of a variable, or its value holds NUL")
    inherited = {
        name: value for name, value in ours.items() if any(fnmatchcase(name, glob) for glob in INHERITED_ENV)
    }
    return inherited | dict(given)


def exit_code(code: int | None, signal: int | None) -> int:
    """Return the code as a shell says it: 128 and the signal's number where one has ended the command."""
    if code is not None:
        return code
    return 128 + signal if signal is not None and 0 < signal <= MOST_SIGNAL else 1


class Output:
    """What a command has said, in the order in which it came, up to a number of bytes of both streams together."""

    def __init__(self, most: int) -> None:
        self._left = most
        self._decoders: dict[Stream, Any] = {
            stream: codecs.getincrementaldecoder("utf-8")("replace") for stream in ("stdout", "stderr")
        }
        self.is_cut = False

    def text(self, stream: Stream, data: bytes) -> str:
        """Return what more can be read of a stream; `is_cut` once there was more than may be kept."""
        if self.is_cut:
            return ""
        if len(data) > self._left:
            data = data[: self._left]
            self.is_cut = True
        self._left -= len(data)
        return self._decoders[stream].decode(data)

    def rest(self, stream: Stream) -> str:
        """Return what is left of a letter at the end. Of a cut stream nothing: the letter may have gone on."""
        return "" if self.is_cut else self._decoders[stream].decode(b"", final=True)
