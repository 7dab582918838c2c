"""Plain calls that are known by their bytes: all of a message but its id, which tells whom it is for and what it is.

Owns what is known, how it is found out where a call comes for the first time, and what is made ready for the next calls
while nobody waits: their recorded answers, and what they are, as long as calls are written as recorded. All of it is
forgotten when names mean others, another recording is played, or there is more that is a secret. Decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gateway.protocol.jsonrpc import BadMessage, result_of, scan
from gateway.replay.picks import Known
from recordings.errors import RecordingError
from recordings.scripted import Delivery

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gateway.calls.core_state import Core
    from gateway.calls.listing import Item
    from gateway.calls.session import Session
    from gateway.replay.player import Player

HEAD = b'{"jsonrpc":"2.0","id":'
"""How nearly every message begins. One that does not goes the long way."""
HEAD_BYTES = len(HEAD)
METHOD = b',"method"'
MOST_ID = 10**18
"""Ids from here on go the long way."""
MOST_KNOWN = 4096
MOST_KNOWN_BYTES = 8 << 20
"""Calls, and bytes of them, that are known by their bytes; all are forgotten where there are more."""
AHEAD, AHEAD_LEARNT = 8, 4
"""How many answers are made ready at once, and how many where their calls have to be learnt too: either takes about 10
or 40 microseconds, for which a core that asks again at once waits."""
AHEAD_FRAMES = 64
AHEAD_BYTES = 64 * 1024
"""How many recorded frames are looked through for them, and from how many bytes on there is no further one."""


class Ready(msgspec.Struct, gc=False, eq=False):
    """The recorded answer to a recorded call, read."""

    answer: Delivery
    body: bytes
    end: bytes
    """What follows the id in the answer to the core."""


def answer_of(
    player: Player, delivery: Delivery, most_depth: int, *, minds_tasks: bool
) -> tuple[bytes, bytes] | None:
    """A recorded answer and the result in it; None where it is anything else."""
    if not delivery.is_answer or delivery.kind != "message":
        return None
    try:
        body = player.body_for(delivery)
        if minds_tasks and body.find(b'"taskId"') >= 0:
            return None
        result = result_of(body, most_depth)
        if result is not None:
            return body, result
        envelope, kind = scan(body, most_depth)
    except (RecordingError, BadMessage):
        return None
    return (body, envelope.result) if kind == "response" else None


def number_of(head: bytes) -> int:
    """The id that a message begins with up to `METHOD`, where it is a plain number, written as we would; else -1."""
    try:
        id_ = int(head[HEAD_BYTES:])
    except ValueError:
        return -1
    # Nothing else is written so: no other beginning, no sign, no zeros before it.
    return id_ if b'{"jsonrpc":"2.0","id":%d' % id_ == head and 0 <= id_ < MOST_ID else -1


class KnownCalls:
    """The plain calls of one session that are known."""

    __slots__ = (
        "_bytes", "_direct", "_generation", "_learns", "_misses", "_player", "_secrets", "by_tail", "minds_tasks",
        "ready",
    )  # fmt: skip

    def __init__(self, generation: Callable[[], int]) -> None:
        """`generation` changes whenever there is more that is a secret."""
        self._generation = generation
        self._player: Player | None = None
        self._secrets = -1
        self._direct: Mapping[str, Item] = {}
        self.minds_tasks = False
        """Whether it has to be remembered whose task it is that a result tells of."""
        self.by_tail: dict[bytes, Known | None] = {}
        """By their bytes from `METHOD` on; None for what is no plain call."""
        self._bytes = 0
        self.ready: dict[int, Ready] = {}
        """Answers that were made ready, by the recorded call, as long as nothing is renamed."""
        self._misses = 0
        self._learns = False
        """Whether a call had to be learnt since it was last looked ahead."""

    def prepare(self, player: Player, session: Session) -> None:
        """See whether what is known is still so. Comes before every look at it."""
        secrets = self._generation()
        direct = session.catalog.direct
        if secrets != self._secrets or player is not self._player or direct is not self._direct:
            self._player, self._secrets, self._direct = player, secrets, direct
            self.minds_tasks = session.only is None
            self.by_tail.clear()
            self.ready.clear()
            self._bytes = 0

    def read(self, core: Core, data: bytes) -> tuple[int, Known] | None:
        """The id of a message and the call that it is; None where it is not plain."""
        head, _, tail = data.partition(METHOD)
        id_ = number_of(head)
        if id_ < 0 or id_ in core.open:
            return None
        by_tail = self.by_tail
        one = by_tail[tail] if tail in by_tail else self.learn(core, data, tail)
        return (id_, one) if one is not None else None

    def learn(self, core: Core, data: bytes, tail: bytes) -> Known | None:
        """See what a call is that has not come before; None where it is not plain, which is remembered too."""
        known = self._see(core, data)
        self._bytes += len(tail)
        if len(self.by_tail) >= MOST_KNOWN or self._bytes > MOST_KNOWN_BYTES:
            self.by_tail.clear()
            self._bytes = len(tail)
        self.by_tail[tail] = known
        self._learns = True
        return known

    def _see(self, core: Core, data: bytes) -> Known | None:
        session = core.session
        try:
            envelope, kind = scan(data, core.most_depth)
        except BadMessage:
            return None
        if kind != "request" or envelope.method != "tools/call" or self._player is None:
            return None
        plain = core.reads(data, envelope.params)
        if plain is None:
            return None
        name = plain.name
        if session.sole is not None:
            peer = session.sole.name
        elif (tool := self._direct.get(name)) is not None:
            peer, name = tool.peer, tool.original
        else:
            return None
        try:
            line = self._player.line_of(peer, "tools/call", name, bytes(envelope.params))
        except Exception:  # noqa: BLE001 - the long way comes to the same, and tells of it and answers
            return None
        return Known(peer, name, line) if line is not None else None

    def answer_to(self, player: Player, request: int, most_depth: int) -> Ready | None:
        """The one thing that comes of a recorded call, where that is a result, is next and was not made ready."""
        caused = player.script.caused_by(request)
        if len(caused) != 1 or not player.gate.is_next(request, caused[0]):
            return None
        self._misses += 1
        if self._misses >= AHEAD:
            # Calls come in another order than was thought.
            self.ready.clear()
        return self._read_answer(player, caused[0], most_depth)

    def _read_answer(self, player: Player, seq: int, most_depth: int) -> Ready | None:
        answer = player.script.deliveries[seq]
        said = answer_of(player, answer, most_depth, minds_tasks=self.minds_tasks)
        return Ready(answer, said[0], b',"result":%b}' % said[1]) if said is not None else None

    def look_ahead(self, core: Core, after: int, most_depth: int) -> None:
        """Make ready what comes behind a recorded call that was just answered."""
        player = self._player
        if player is None or player.renames:
            return
        self._misses = size = 0
        learns, self._learns = self._learns, False
        most = AHEAD_LEARNT if learns else AHEAD
        script, ready = player.script, self.ready
        caused_by, deliveries = script.caused_by, script.deliveries
        for seq in filter(script.arrivals.__contains__, range(after + 1, after + 1 + AHEAD_FRAMES)):
            caused = caused_by(seq)
            if len(caused) != 1:
                continue
            answer = deliveries[caused[0]]
            if answer.method != "tools/call" or not answer.is_answer:
                continue
            one = self._read_short(player, answer, most_depth) or self._read_answer(
                player, answer.seq, most_depth
            )
            if one is None:
                continue
            ready[seq] = one
            size += len(one.body)
            if learns:
                self._learn_recorded(core, player, seq)
            if len(ready) >= most or size >= AHEAD_BYTES:
                break

    def _read_short(self, player: Player, answer: Delivery, most_depth: int) -> Ready | None:
        """As `_read_answer`, for what is short and plain, in half of the time; None of all that is not."""
        if answer.kind != "message" or self.minds_tasks:
            return None
        try:
            body = player.script.source.body(answer.seq)
        except RecordingError:
            return None
        result = result_of(body, most_depth)
        return Ready(answer, body, b',"result":%b}' % result) if result is not None else None

    def _learn_recorded(self, core: Core, player: Player, seq: int) -> None:
        """Know a call by its recorded bytes, as it comes again where whoever makes it writes it in the same way."""
        try:
            body = player.script.body(seq)
        except RecordingError:
            return
        head, _, tail = body.partition(METHOD)
        if tail not in self.by_tail and number_of(head) >= 0:
            self.learn(core, body, tail)
