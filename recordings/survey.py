"""Checking the lines of a whole recording quickly: block by block, by the hash that each block line carries.

Owns the short way alone. The hash of a block covers every byte of its lines, so that these are not checked one by one
and nothing but their numbers and what they settle is read. Where anything is not as a writer leaves it, this module
gives up, and `segment.scan` has the verdict. Reads no file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable

import msgspec

from recordings.frame import Frame, Kind
from recordings.segment import BLOCK_BYTES, BadLineError, Tally, decode, through

_MARK = b'"kind":"block"'
_MARKED_WITHIN = 100
"""The kind of a block line stands among so many bytes: only numbers come before it."""
_MOST_BYTES = 16 * BLOCK_BYTES
"""A block that has not ended after so many bytes is none of ours."""


class IrregularError(Exception):
    """A line or a block is not as a writer leaves it: which of them, and why, is for `scan` to say."""


class Known(msgspec.Struct, gc=False):
    """What is read of a line."""

    seq: int
    kind: Kind
    re: int | None = None
    method: str | None = None


_known = msgspec.json.Decoder(Known).decode


def survey(
    lines: Iterable[bytes], tally: Tally, see: Callable[[Known], None], told: Callable[[int], None]
) -> None:
    """Check all lines; fill `tally` as `scan` would, and give each frame to `see`, block lines left out.

    `told` is called after each block with the bytes that are done. Raises `IrregularError`; what was given until
    then counts for nothing.
    """
    block: list[bytes] = []
    size = 0
    chain = hashlib.blake2b(digest_size=32)
    for line in lines:
        if _MARK in line[:_MARKED_WITHIN]:
            facts = _block_facts(line)
            if facts is not None:
                chain.update(b"".join(block))
                if facts != (chain.hexdigest(), len(block)):
                    raise IrregularError
                _take(block, tally, see)
                tally.blocks += 1
                tally.root = facts[0]
                tally.intact_bytes += size + len(line)
                told(tally.intact_bytes)
                chain = hashlib.blake2b(line, digest_size=32)
                block.clear()
                size = 0
                continue
        block.append(line)
        size += len(line)
        if size > _MOST_BYTES:
            raise IrregularError
    # No block line speaks for what is left.
    for line in block:
        _decoded(line)
    _take(block, tally, see)
    tally.intact_bytes += size


def _block_facts(line: bytes) -> tuple[str, object] | None:
    """The hash and the number of lines that a block line tells; None of any other line."""
    frame = _decoded(line)
    if frame.kind != "block":
        return None
    facts = frame.x or {}
    return str(facts.get("hash", "")), facts.get("frames")


def _take(lines: Iterable[bytes], tally: Tally, see: Callable[[Known], None]) -> None:
    last = tally.last
    count = 0
    for line in lines:
        try:
            known = _known(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise IrregularError from None
        seq = known.seq
        # A recording begins with 0 or 1, and no number is missing after that.
        if seq - 1 != last and not (last is None and seq in (0, 1)):
            raise IrregularError
        last = seq
        if known.kind == "drop":
            frame = _decoded(line)
            end = through(frame)
            if end is not None:
                tally.holes.append((seq, end, str((frame.x or {}).get("why", ""))))
                last = end
        see(known)
        count += 1
    tally.last = last
    tally.frames += count


def _decoded(line: bytes) -> Frame:
    try:
        return decode(line)
    except BadLineError:
        raise IrregularError from None
