"""The straight way from frames to their lines of the log, for plain tool calls: no frame, no facts, no entry is made.

Owns the tests of whether a frame is such a one. The lines are what `ledger` writes about such calls, in pieces
(`blanks`), and those of many frames are put together at once. What is not plain finds the operations as ever (`kept`).
A test holds that both ways lead to the same lines.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from gateway.protocol.canonical import NotCanonicalError, hash_of_call, hash_within, params_hash
from gateway.protocol.jsonrpc import LongAnswer, LongCall
from gateway.telemetry.blanks import MOST_FORMS, SECOND_NS, Clock, Pieces, milliseconds, padded, pieces_of
from gateway.telemetry.facts import (
    BIG_BYTES,
    EVENT_HOOK,
    Item,
    NamedItem,
    PlainItem,
    read_answer,
    read_request,
)
from gateway.telemetry.kept import Kept
from gateway.telemetry.ledger import Writer
from gateway.telemetry.operations import Scene, Tracker
from gateway.telemetry.plain_hooks import PlainHooks

if TYPE_CHECKING:
    from gateway.telemetry._speedups import PlainLines

LONG_CALL_BYTES, LONG_ANSWER_BYTES = 128 * 1024, 256 * 1024
"""Shorter ones are read here, in a fraction of a millisecond, as most are; others in a thread, which takes part of a
millisecond to go to and to come from, and has the loop wait for the interpreter meanwhile."""
MOST_KNOWN, LONGEST_KNOWN = 1024, 4096
"""Calls that are known again by what stands around their ids, and how long they may be."""

Known: TypeAlias = tuple[str, str, tuple[str, str, str], Pieces, Pieces]
"""Of calls that differ in their ids alone: the hash of their params, that with what stands around it, the other pieces
of the line about the beginning, what both lines say alike, and the pieces of the line about the end."""
_NOWHERE = b"", b"", b""


class PlainCalls:
    """The plain calls of one session."""

    def __init__(
        self,
        scene: Scene,
        writer: Writer,
        tracker: Tracker,
        suspects: Callable[[bytes], object],
        write: Callable[[bytes], None],
    ) -> None:
        """`suspects` says whether bytes may hold a secret, `write` is given every line, some of them together."""
        self._scene = scene
        self._writer = writer
        self._tracker = tracker
        self._kept = tracker.kept
        self._suspects = suspects
        self._write = write
        self._pieces: dict[tuple[str, str], tuple[Pieces, Pieces, Pieces] | None] = {}
        self._known: dict[tuple[str, str, bytes, bytes], Known] = {}
        """By peer, name, and what stands before a call's id and behind it."""
        self._clock = Clock(scene.started)
        self._hooks = PlainHooks(scene, writer, tracker, suspects, self._clock)
        name = f"{scene.session} {scene.seed}".encode("utf-8", "surrogatepass")
        # Begun once, and gone on with from copies: to begin costs five times as much as a copy.
        self._traces = hashlib.blake2b(b"trace %b " % name, digest_size=16).copy
        self._spans = hashlib.blake2b(b"span %b " % name, digest_size=8).copy
        self._lines = _lines_of(self._kept, name, suspects, self._clock)
        """What does most of this at once, and knows calls again, where it is there."""
        self._ms = padded()
        self._second_at, self._second = self._clock.second(0)
        """When the second of the last line began, and how lines begin in it."""

    def forget(self) -> None:
        """There are more secrets: what is kept is to be looked at again."""
        self._pieces.clear()
        self._known.clear()
        if self._lines is not None:
            self._lines.forget()
        self._hooks.forget()

    def take(self, items: deque[Item], most: int) -> int:
        """Write the lines about as many of the first items as are plain, and at most so many, and take them away.

        Return the bytes of their bodies, after which there are fewer where these are long. Of the first that is not
        plain nothing has been touched.
        """
        out: list[str] = []
        lines, kept = self._lines, self._kept
        asked, answered, opinion = self._asked, self._answered, self._hooks.opinion
        plain, questions, asking = kept.plain, kept.questions, kept.asking
        stay = max(0, len(items) - most)
        taken = 0
        try:
            for _ in range(len(items) - stay):
                if lines is not None:
                    if len(items) == stay:
                        break
                    if self._at_once(lines, items, len(items) - stay, out):
                        taken += lines.taken
                        if taken >= BIG_BYTES:
                            break
                        continue
                item = items.popleft()
                if len(item) != 12:
                    is_told = self._is_of_hooks(item, out)
                elif item[2] == "request":
                    is_told = asked(item, out)
                else:
                    re = item[7]
                    is_told = item[2] == "response" and (
                        (re in plain and re not in asking and answered(item, out))
                        or (re in questions and opinion(item, out))
                        or self._ended(item, out)
                    )
                if not is_told:
                    items.appendleft(item)
                    break
                taken += len(item[4])
                if taken >= BIG_BYTES:
                    break
        finally:
            self._put(out)
            kept.trim()
        return taken

    def _at_once(self, lines: PlainLines, items: deque[Item], most: int, out: list[str]) -> int:
        """Have C tell of the first items, behind what is told already; return of how many it did."""
        if out:
            lines.add("".join(out))
            out.clear()
        kept = self._kept
        lines.count = kept.count
        try:
            told = lines.take(items, most)
        except BaseException:
            # Who was asked has raised; what was told before that has been told.
            kept.count = lines.count
            self._tracker.last = max(self._tracker.last, lines.last)
            raise
        if told:
            kept.count = lines.count
            self._tracker.last = lines.last
        return told

    def _put(self, out: list[str]) -> None:
        if (lines := self._lines) is not None:
            lines.add("".join(out))
            if ready := lines.ready():
                self._write(ready)
        elif out:
            self._write("".join(out).encode())

    def _asked(self, item: PlainItem, out: list[str]) -> bool:
        """Tell of a plain call, and say whether that was done. Where not, nothing has been touched."""
        seq, at, _, way, body, peer, id_, _, method, name, unsuspected, _ = item
        if way != "core>" or method != "tools/call" or id_.__class__ is not int:
            return False
        size = len(body)
        head, _, tail = body.partition(b'"id":%d' % id_) if size <= LONGEST_KNOWN else _NOWHERE
        call = self._known.get((peer, name, head, tail)) or self._learnt(item, head, tail)
        if call is None or (not unsuspected and self._suspects(body)):
            return False
        hashed, says, (begins, begun, asked), alike, ends = call
        number = f"{seq}"
        digits = number.encode()
        trace, span = self._traces(), self._spans()
        trace.update(digits)
        span.update(b"%b server" % digits)
        middle = f"{number}{alike[0]}{id_}{alike[1]}{trace.hexdigest()}{alike[2]}{span.hexdigest()}{alike[3]}{number}"
        self._kept.plain[seq] = at, size, peer, name, id_, hashed, middle, alike, ends
        since = at - self._second_at
        if not 0 <= since < SECOND_NS:
            since = self._turned(at)
        out += begins, self._second, self._ms[since // 1_000_000], begun, middle, says, f"{size}", asked
        self._tracker.last = at
        return True

    def _turned(self, at: int) -> int:
        """Go to the second of a time, and return how much of it has passed."""
        self._second_at, self._second = self._clock.second(at)
        return at - self._second_at

    def _answered(self, item: PlainItem, out: list[str]) -> bool:
        """Tell of the result of a plain call that is kept in short; as `_asked`."""
        _, at, _, way, body, peer, _, re, method, name, unsuspected, read = item
        plain = self._kept.plain
        call = plain[re]  # pyright: ignore[reportArgumentType] - whoever calls has looked
        size = len(body)
        if (
            way != "peer>"
            or method != "tools/call"
            or name
            or call[2] != peer
            or size >= LONG_ANSWER_BYTES
            or (not unsuspected and self._suspects(body))
            or not _is_result(read, body)
        ):
            return False
        del plain[re]  # pyright: ignore[reportArgumentType] - as above
        start, request_size, _, name, id_, hashed, middle, _, (ends, ended, took, answered, last) = call
        kept = self._kept
        count = kept.count
        kept.ended[re] = count, start, request_size, peer, name, id_, hashed, at, size  # pyright: ignore[reportArgumentType] - as above
        kept.count = count + 1
        since = at - self._second_at
        if not 0 <= since < SECOND_NS:
            since = self._turned(at)
        out += ends, self._second, self._ms[since // 1_000_000], ended, middle
        out += took, milliseconds(at - start), answered, f"{size}", last
        self._tracker.last = at
        return True

    def _is_of_hooks(self, item: NamedItem, out: list[str]) -> bool:
        """Tell of a question to a hook or of a decision; as `_asked`."""
        kind = item[2]
        if kind == "hook":
            return self._hooks.decided(item, out)
        return kind == "request" and item[5].get("method") == EVENT_HOOK and self._hooks.asked(item, out)

    def _ended(self, item: PlainItem, out: list[str]) -> bool:
        """Tell of the result of a call that is an operation already; as `_asked`."""
        _, at, _, way, body, peer, _, re, method, name, unsuspected, read = item
        operation = self._tracker.ends_plainly(re) if method == "tools/call" else None
        size = len(body)
        if operation is None or way != "peer>" or name or operation.peer != peer or size >= LONG_ANSWER_BYTES:
            return False
        pieces = self._pieces.get((peer, operation.name))
        if pieces is None or (not unsuspected and self._suspects(body)) or not _is_result(read, body):
            return False
        self._tracker.end_plain(operation, at, size)
        alike, _, (ends, ended, took, answered, last) = pieces
        number = f"{operation.seq}"
        out += ends, self._clock.read(at), ended
        out += number, alike[0], operation.id or "", alike[1], operation.trace_id, alike[2], operation.span_id
        out += alike[3], number, took, milliseconds(at - operation.start), answered, f"{size}", last
        return True

    def _learnt(self, item: PlainItem, head: bytes, tail: bytes) -> Known | None:
        """What is to be known of a call, with what stands around its id; None where it is not plain."""
        _, _, _, _, body, peer, id_, _, _, name, _, read = item
        size = len(body)
        if size >= LONG_CALL_BYTES or (size < BIG_BYTES and body.find(b'"_meta"') >= 0):
            return None
        try:
            pieces = self._pieces[peer, name]
        except KeyError:
            pieces = self._pieces_of(peer, name)
        hashed = _hash_of(read, body) if pieces is not None else None
        if pieces is None or hashed is None:
            return None
        alike, (begins, begun, of_hash, of_size, last), ended = pieces
        known = hashed, f"{of_hash}{hashed}{of_size}", (begins, begun, last), alike, ended
        if tail:
            if self._lines is not None:
                self._lines.learn(peer, name, body, id_, known)
                return known
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[peer, name, head, tail] = known
        return known

    def _pieces_of(self, peer: str, name: str) -> tuple[Pieces, Pieces, Pieces] | None:
        """The lines about calls of a tool; None where they cannot be told in advance."""
        pieces = pieces_of(
            self._scene,
            self._writer,
            self._suspects,
            side="server",
            peer=peer,
            method="tools/call",
            name=name,
        )
        if len(self._pieces) < MOST_FORMS:
            self._pieces[peer, name] = pieces
        return pieces


def _hash_of(read: LongCall | LongAnswer | None, body: bytes) -> str | None:
    """The hash of the params of a call, which may have been read; None where only the long way may tell."""
    if isinstance(read, LongCall):
        found = hash_of_call(read.name, read.arguments, body)
        if found is not None or len(body) >= BIG_BYTES:
            return found
    if len(body) >= BIG_BYTES:
        return hash_within("tools/call", body, without="_meta")
    try:
        return params_hash("tools/call", bytes(read_request(body).params))
    except (msgspec.DecodeError, NotCanonicalError, RecursionError):
        return None


def _is_result(read: LongCall | LongAnswer | None, body: bytes) -> bool:
    """Whether an answer, which may have been read, has a result that is no error and asks for nothing."""
    if read is not None and isinstance(read, LongAnswer) and read.members is not None:
        # It says of no error and of nothing that is still to come.
        return True
    try:
        result = read_answer(body).result
    except (msgspec.DecodeError, RecursionError):
        return False
    return result is not None and result.is_error is not True and result.kind is None


def _lines_of(
    kept: Kept, seed: bytes, suspects: Callable[[bytes], object], clock: Clock
) -> PlainLines | None:
    """What tells of most frames at once; None where it is not there, or a session has too long a name for it."""
    try:
        from gateway.telemetry._speedups import LONGEST_SEED, PlainLines
    except ImportError:
        return None
    if len(seed) > LONGEST_SEED:
        return None
    return PlainLines(kept.plain, kept.asking, kept.ended, seed, suspects, clock.second)
