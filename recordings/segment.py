"""Lines of `frames.jsonl`: how a frame becomes one, how one is read back, and how a run of them is judged.

Owns the checksum of a line, the chain of block lines, the treatment of bodies that are no JSON, and the
verdict on a byte range: intact prefix, torn tail, or damage in the middle. Reads no file and no clock:
whoever has a clock says when a block is due.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import field

from recordings.errors import DamagedError, WriteRefusedError
from recordings.frame import BLOB_BYTES, NO_BODY, Blob, Frame
from recordings.late import late_decoder
from recordings.tokens import is_json

try:
    # What `hashlib` gives too, and with it OpenSSL and all its algorithms.
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

try:
    from recordings._speedups import crc32c, line_from
    from recordings._speedups import line_filled as line_filled
except ImportError:
    from recordings.plain_lines import crc32c, line_from
    from recordings.plain_lines import line_filled as line_filled

BLOCK_BYTES = 256 * 1024
"""A block line is due after so many bytes of lines…"""
BLOCK_NS = 50_000_000
"""… or so many nanoseconds after the block's first frame, whichever is first."""
_NEWLINE = ord("\n")
"""A number is looked for in a third of the time that bytes take."""
_SUM = b',"crc":'
_NEVER = 1 << 63
ALWAYS = -1

_encoder = msgspec.json.Encoder()
_decoder = late_decoder(Frame)


class BadLineError(ValueError):
    """A line is not what `encode` wrote: says what is wrong, never what it holds."""


# One line


def settle(frame: Frame, *, is_known: bool = False) -> Frame:
    """Give a frame whose body can stand in a line as it is. `is_known`: somebody has seen that its body is JSON.

    Newlines outside strings become spaces (inside strings JSON allows none). A body that is not valid UTF-8
    JSON makes the frame a `raw` one that keeps its kind in `x["kind"]`. Never changes the frame that it is
    given.
    """
    body = bytes(frame.body)
    if not body:
        return frame if frame.body is NO_BODY else msgspec.structs.replace(frame, body=NO_BODY)
    if frame.kind == "raw":
        return frame
    if not (is_known or is_json(body)):
        return msgspec.structs.replace(frame, kind="raw", x={**(frame.x or {}), "kind": frame.kind})
    if _NEWLINE in body:
        return msgspec.structs.replace(frame, body=msgspec.Raw(body.replace(b"\n", b" ")))
    return frame


def part(frame: Frame) -> tuple[Frame, bytes | None]:
    """Take a body that is one for `blobs/` out of a settled frame: the frame that names it, its bytes."""
    body = frame.body
    if memoryview(body).nbytes < BLOB_BYTES:
        return frame, None
    data = bytes(body)
    blob = Blob(hash=digest_of(data), len=len(data), enc="raw" if frame.kind == "raw" else "json")
    return msgspec.structs.replace(frame, body=NO_BODY, blob=blob), data


def json_of(frame: Frame) -> bytes:
    """A settled frame as one JSON object without a checksum, a `raw` body in base64."""
    if frame.kind == "raw":
        body = bytes(frame.body)
        if body:
            text = b'"' + binascii.b2a_base64(body, newline=False) + b'"'
            frame = msgspec.structs.replace(frame, body=msgspec.Raw(text))
    return _encoder.encode(frame)


def line_of(frame: Frame) -> bytes:
    """The line of a settled frame: its JSON with `crc` as the last field, and a newline."""
    return line_from(json_of(frame))


def digest_of(body: bytes) -> str:
    """The SHA-256 of a body of blob size, in hex. Raises `WriteRefusedError` where nothing can be loaded that finds it
    out."""
    try:
        # For who has long bodies alone: OpenSSL comes with it.
        from hashlib import sha256
    except (ImportError, OSError) as error:
        raise WriteRefusedError(f"the recording cannot be written: {error}") from error
    return sha256(body).hexdigest()


def beside(start: bytes, digest: str, size: int) -> bytes:
    """The line of a frame whose body is a blob of JSON: `start` is the frame's own up to where that is named."""
    return line_from(b'%b,"blob":{"hash":"%b","len":%d,"enc":"json"}}' % (start, digest.encode(), size))


def frame_in(line: bytes) -> Frame:
    """The frame that a line of ours is of."""
    return _decoder.decode(line[: line.rfind(_SUM)] + b"}")


def encode(frame: Frame) -> bytes:
    """The line of any frame, its body inline whatever its length."""
    return line_of(settle(frame))


def decode(line: bytes) -> Frame:
    """Read a line back. Raises `BadLineError` where a byte of it is not what was written.

    Fields that this version does not know are kept in `x`.
    """
    payload = _checked(line)
    try:
        frame = _decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        frame = _decode_loosely(payload)
    if frame.kind == "raw":
        body = bytes(frame.body)
        if body:
            try:
                frame.body = msgspec.Raw(binascii.a2b_base64(body[1:-1], strict_mode=True))
            except ValueError:
                raise BadLineError("a raw body is not base64") from None
    return frame


def _checked(line: bytes) -> bytes:
    if line[-2:] != b"}\n":
        raise BadLineError("the line does not end")
    cut = line.rfind(_SUM)
    if cut < 0:
        raise BadLineError("the line has no checksum")
    payload = line[:cut] + b"}"
    # Compared as text, so that one checksum has one spelling and no byte of a line can change unseen.
    if line[cut + 7 : -2] != b"%d" % crc32c(payload):
        raise BadLineError("the checksum is wrong")
    return payload


def _decode_loosely(payload: bytes) -> Frame:
    try:
        fields: dict[str, msgspec.Raw] = msgspec.json.decode(payload, type=dict[str, msgspec.Raw])
        known = {name: value for name, value in fields.items() if name in Frame.__struct_fields__}
        unknown = {name: msgspec.json.decode(value) for name, value in fields.items() if name not in known}
        frame = _decoder.decode(_encoder.encode(known))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadLineError("the line is no frame") from None
    if unknown:
        frame.x = {**unknown, **(frame.x or {})}
    return frame


# The chain of blocks


class Chain:
    """The running blake2b over lines, closed by block lines. A block begins with the block line before it.

    Lines are hashed when somebody asks, all at once: that is a fifth of the cost of hashing each as it comes, and
    off the path of a call.
    """

    __slots__ = ("_hash", "_hashed", "due_at", "first", "lines", "size")

    def __init__(self) -> None:
        self.resume(b"")

    def resume(self, block_line: bytes) -> None:
        """Begin the block that follows a block line."""
        self._hash = blake2b(block_line, digest_size=32)
        self.lines: list[bytes] = []
        """An element for each. Of two that were taken as one the first holds both, and the second nothing."""
        self._hashed = 0
        self.size = 0
        self.first = 0
        """The sequence number of the block's first frame; 0 while it has none."""
        self.due_at = _NEVER
        """The block is to be closed before a frame of this time or a later one is added."""

    @property
    def frames(self) -> int:
        """Lines since the last block line."""
        return self._hashed + len(self.lines)

    def add(self, line: bytes, seq: int, at: int) -> None:
        """Take one line into the block."""
        self.lines.append(line)
        size = self.size
        if not size:
            self.first = seq
            self.due_at = at + BLOCK_NS
        self.size = size = size + len(line)
        if size >= BLOCK_BYTES:
            self.due_at = ALWAYS

    def add_both(self, lines: bytes, seq: int, at: int) -> None:
        """Take two lines, given as one, into the block, the frame of the first being `seq`."""
        self.lines += (lines, b"")
        size = self.size
        if not size:
            self.first = seq
            self.due_at = at + BLOCK_NS
        self.size = size = size + len(lines)
        if size >= BLOCK_BYTES:
            self.due_at = ALWAYS

    def add_all(self, lines: list[bytes], size: int, seq: int, at: int) -> None:
        """Take lines of `size` bytes into the block, the frame of the first being `seq`."""
        self.add(lines[0], seq, at)
        self.lines += lines[1:]
        self.size += size - len(lines[0])
        if self.size >= BLOCK_BYTES:
            self.due_at = ALWAYS

    def due(self, at: int) -> bool:
        """Whether the block is to be closed before a frame of time `at` is added."""
        return at >= self.due_at

    def copy(self) -> Chain:
        """A chain that goes on from here on its own."""
        twin = Chain.__new__(Chain)
        for name in self.__slots__:
            setattr(twin, name, getattr(self, name))
        twin.unshare()
        return twin

    def unshare(self) -> None:
        """Let go of what is shared with the chain that this one is a copy of."""
        self._hash = self._hash.copy()
        self.lines = self.lines.copy()

    def digest(self) -> str:
        """Hex of the chain up to here."""
        self._hash.update(b"".join(self.lines))
        self._hashed += len(self.lines)
        self.lines.clear()
        return self._hash.hexdigest()

    def close(self, seq: int, at: int) -> bytes:
        """Close the block and give its line, which carries the number of the last frame before it."""
        block = Frame(seq=seq, at=at, kind="block", x={"frames": self.frames, "hash": self.digest()})
        line = line_of(block)
        self.resume(line)
        return line


# A run of lines


class Scanned(msgspec.Struct, frozen=True):
    """One intact line: its frame, where it begins, and itself."""

    frame: Frame
    byte: int
    line: bytes


class Tally(msgspec.Struct):
    """What a scan found besides frames; filled while it runs."""

    frames: int = 0
    blocks: int = 0
    last: int | None = None
    """The last sequence number accounted for."""
    root: str = ""
    """The hash of the last block."""
    intact_bytes: int = 0
    torn_lines: int = 0
    torn_bytes: int = 0
    holes: list[tuple[int, int, str]] = field(default_factory=list[tuple[int, int, str]])
    """First and last number of frames that the writer says are not there, and why."""


def scan(lines: Iterable[bytes], tally: Tally | None = None) -> Iterator[Scanned]:
    """Judge lines in order and give what is intact, block lines (kind `block`) among it.

    What is unreadable up to the end is a torn tail: cut, and counted in `tally`. Raises `DamagedError` where
    a line is bad and an intact one follows, where a number is missing or twice, or where the chain is broken.
    """
    tally = tally if tally is not None else Tally()
    chain = Chain()
    byte = block_byte = 0
    rest = iter(lines)
    for line in rest:
        try:
            frame = decode(line)
        except BadLineError as why:
            _judge_tail(line, rest, tally, seq=_next(tally.last), byte=byte, what=str(why))
            return
        if frame.kind == "block":
            _check_block(frame, chain, byte=block_byte, seq=_next(tally.last))
            chain.resume(line)
            tally.blocks += 1
            tally.root = str((frame.x or {}).get("hash", ""))
            yield Scanned(frame, byte, line)
            byte += len(line)
            block_byte = byte
            tally.intact_bytes = byte
            continue
        _check_number(frame, tally, byte)
        chain.add(line, frame.seq, frame.at)
        tally.frames += 1
        yield Scanned(frame, byte, line)
        byte += len(line)
        tally.intact_bytes = byte


def hole(first: int, last: int, at: int, why: str) -> Frame:
    """The frame that stands for frames which were numbered and could not be kept."""
    return Frame(seq=first, at=at, kind="drop", flags=("synthetic",), x={"through": last, "why": why})


def through(frame: Frame) -> int | None:
    """The last number that a frame made by `hole` stands for; None for any other frame."""
    if frame.kind != "drop" or frame.x is None:
        return None
    last: Any = frame.x.get("through")
    return last if isinstance(last, int) and last >= frame.seq else None


def _next(last: int | None) -> int:
    return 1 if last is None else last + 1


def _check_number(frame: Frame, tally: Tally, byte: int) -> None:
    expected = _next(tally.last)
    if frame.seq != expected and not (tally.last is None and frame.seq == 0):
        raise DamagedError(f"frame {frame.seq} stands where {expected} belongs", seq=expected, byte=byte)
    last = through(frame)
    if last is not None:
        tally.holes.append((frame.seq, last, str((frame.x or {}).get("why", ""))))
    tally.last = frame.seq if last is None else last


def _check_block(frame: Frame, chain: Chain, *, byte: int, seq: int) -> None:
    facts = frame.x or {}
    if facts.get("hash") != chain.digest() or facts.get("frames") != chain.frames:
        raise DamagedError(
            "the chain is broken: this block is not the one that was written",
            seq=chain.first if chain.frames else seq,
            byte=byte,
        )


def _judge_tail(line: bytes, rest: Iterator[bytes], tally: Tally, *, seq: int, byte: int, what: str) -> None:
    tally.torn_lines = 1
    tally.torn_bytes = len(line)
    for later in rest:
        try:
            decode(later)
        except BadLineError:
            tally.torn_lines += 1
            tally.torn_bytes += len(later)
        else:
            raise DamagedError(what, seq=seq, byte=byte)
