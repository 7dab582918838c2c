"""Faults that a replay puts into what was recorded: rules, and the decision which frames they strike.

Owns the deeds, what a rule may say, and the choice, which is the same for the same recording, rules and seed.
Carries nothing out: the gate and the scripted links do. How rules are written is `faulttext`'s business.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from hashlib import blake2b
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import msgspec

from recordings.errors import Code
from recordings.frame import Frame, is_hop

Deed: TypeAlias = Literal[
    "delay", "drop", "duplicate", "reorder", "cut", "corrupt", "error", "half-line", "stderr", "exit", "kill",
    "disconnect", "slow",
]  # fmt: skip
"""What is done.

`delay`: it comes later. `drop`: it is lost. `duplicate`: it comes twice. `reorder`: it comes behind others that do not
depend on it. `cut`: of a stream, only the beginning comes, and no answer. `corrupt`: some bytes are others.
`error`: an error of the taxonomy comes instead. `half-line`: half of it comes, and then the end of the connection.
`stderr`: the peer floods its stderr before it. `exit`, `kill`: the peer's process ends by itself or by SIGKILL.
`disconnect`: the connection ends without a close (1006 of a websocket). `slow`: the peer reads so many bytes a second.
"""
DEEDS: tuple[Deed, ...] = get_args(Deed)

On: TypeAlias = Literal["request", "answer", "question", "notification", "chunk"]
"""What is struck: a request on its way to a peer, or what a peer says."""
When: TypeAlias = Literal["before", "after"]

STRIKES: Mapping[Deed, tuple[On, ...]] = {
    "delay": ("answer", "request", "question", "notification", "chunk"),
    "drop": ("answer", "request", "question", "notification", "chunk"),
    "duplicate": ("answer", "question", "notification", "chunk"),
    "reorder": ("answer", "question", "notification", "chunk"),
    "cut": ("chunk", "notification"),
    "corrupt": ("answer", "question", "notification", "chunk"),
    "error": ("answer", "request"),
    "half-line": ("answer", "question", "notification", "chunk"),
    "stderr": ("answer", "request", "question", "notification", "chunk"),
    "exit": ("answer", "request", "question", "notification", "chunk"),
    "kill": ("answer", "request", "question", "notification", "chunk"),
    "disconnect": ("answer", "request", "question", "notification", "chunk"),
    "slow": ("request",),
}
"""What each deed can strike; the first is what it does where a rule does not say."""

TAKES: Mapping[Deed, Mapping[str, Any]] = {
    "delay": {"seconds": 1.0},
    "reorder": {"behind": 1},
    "cut": {"keep": 1},
    "corrupt": {"bytes": 1},
    "error": {"code": "internal", "message": ""},
    "stderr": {"bytes": 1 << 20},
    "exit": {"when": "before", "status": 1},
    "kill": {"when": "before"},
    "disconnect": {"when": "before"},
    "slow": {"bytes": 1024},
}
"""What a rule may say beside whom it strikes, and what holds where it does not."""


class FaultRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One fault: what is done, and to which frames. `peer`, `method`, `name` and `lane` are globs."""

    deed: Deed
    on: On | None = None
    """None: what the deed usually strikes."""
    peer: str | None = None
    method: str | None = None
    name: str | None = None
    lane: str | None = None
    """Of a frame in no lane it is the empty text."""
    at: int | None = None
    """Only the recorded frame of this number."""
    nth: int | None = None
    """Only the so-manieth of the frames that fit, from 1; of a `cut`, of the streams."""
    times: int | None = None
    """So many of them at most."""
    probability: float = 1.0
    """With what chance each that fits is struck; drawn from the seed of the session."""
    seconds: float = 1.0
    behind: int = 1
    keep: int = 1
    bytes: int | None = None
    code: Code = "internal"
    message: str = ""
    when: When = "before"
    status: int = 1

    @property
    def target(self) -> On:
        """What it strikes."""
        return self.on or STRIKES[self.deed][0]

    @property
    def amount(self) -> int:
        """Bytes to corrupt, to flood, or to read a second."""
        return self.bytes if self.bytes is not None else int(TAKES[self.deed].get("bytes", 0))


class Target(NamedTuple):
    """A recorded frame, as rules see it."""

    seq: int
    on: On
    peer: str = ""
    method: str = ""
    """Of an answer and of what belongs to a request: that of the request."""
    name: str = ""
    lane: str = ""
    request: int | None = None
    """The request that it is, answers or belongs to."""
    place: int = 0
    """Which of the notifications and chunks of its request it is, from 0."""


class Action(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is to be done to one frame."""

    deed: Deed
    rule: int
    """Which of the rules says so, from 0."""
    seconds: float = 0.0
    behind: int = 0
    bytes: int = 0
    code: Code | None = None
    message: str = ""
    when: When | None = None
    status: int = 0

    @property
    def is_last(self) -> bool:
        """Whether the frame does not arrive whole, so that nothing more can be done to it."""
        return self.deed in ("drop", "error", "half-line") or (
            self.deed in ("exit", "kill", "disconnect") and self.when == "before"
        )

    @property
    def facts(self) -> dict[str, Any]:
        """The `x` of the `fault` frame that tells of it."""
        return {"event": "injected", **msgspec.to_builtins(self)}


class FaultPlan:
    """Decides frame by frame which rules strike. Pure but for its counters: shown the same frames in the same
    order, with the same seed, it always says the same."""

    def __init__(self, rules: Sequence[FaultRule], seed: int | str | None = None) -> None:
        self._rules = tuple(rules)
        self._seed = repr(seed).encode()
        self._seen = [0] * len(self._rules)
        self._struck = [0] * len(self._rules)
        self._cut: dict[tuple[int, int], bool] = {}
        """For each rule that cuts and each request: whether its stream is cut."""

    def strike(self, target: Target) -> tuple[Action, ...]:
        """What is to be done to this frame, in the order of the rules; nothing comes after what ends it."""
        done: list[Action] = []
        for number, rule in enumerate(self._rules):
            action = (
                self._cuts(number, rule, target) if rule.deed == "cut" else self._hits(number, rule, target)
            )
            if action is not None:
                done.append(action)
                if action.is_last:
                    break
        return tuple(done)

    def _hits(self, number: int, rule: FaultRule, target: Target) -> Action | None:
        if target.on != rule.target or not fits(rule, target) or not self._chosen(number, rule, target.seq):
            return None
        return action_of(rule, number)

    def _cuts(self, number: int, rule: FaultRule, target: Target) -> Action | None:
        """A stream that is cut loses all from one place on, its answer too."""
        if target.request is None or target.on not in (rule.target, "answer") or not fits(rule, target):
            return None
        which = (number, target.request)
        if target.on == "answer":
            # Without a stream there was nothing to cut.
            return Action(deed="drop", rule=number) if self._cut.get(which) else None
        if which not in self._cut:
            self._cut[which] = self._chosen(number, rule, target.request)
        if self._cut[which] and target.place >= rule.keep:
            return Action(deed="drop", rule=number)
        return None

    def _chosen(self, number: int, rule: FaultRule, seq: int) -> bool:
        self._seen[number] += 1
        if rule.nth is not None and self._seen[number] != rule.nth:
            return False
        if rule.times is not None and self._struck[number] >= rule.times:
            return False
        if rule.probability < 1 and self._draw(number, seq) >= rule.probability:
            return False
        self._struck[number] += 1
        return True

    def _draw(self, number: int, seq: int) -> float:
        """A number of [0, 1) that hangs on the seed, the rule and the frame alone."""
        return _digest(self._seed, number, seq) / 2**64


def fits(rule: FaultRule, target: Target) -> bool:
    """Whether a rule speaks about this frame, whatever it is on and whichever of several it is."""
    if rule.at is not None and rule.at not in (
        (target.seq, target.request) if rule.deed == "cut" else (target.seq,)
    ):
        return False
    return all(
        glob is None or fnmatchcase(value, glob)
        for glob, value in (
            (rule.peer, target.peer),
            (rule.method, target.method),
            (rule.name, target.name),
            (rule.lane, target.lane),
        )
    )


def action_of(rule: FaultRule, number: int) -> Action:
    """What a rule does to a frame that it strikes."""
    takes = TAKES.get(rule.deed, {})
    return Action(
        deed=rule.deed,
        rule=number,
        seconds=rule.seconds if "seconds" in takes else 0.0,
        behind=rule.behind if "behind" in takes else 0,
        bytes=rule.amount if "bytes" in takes else 0,
        code=rule.code if "code" in takes else None,
        message=rule.message if "message" in takes else "",
        when=rule.when if "when" in takes else None,
        status=rule.status if "status" in takes else 0,
    )


def planned(
    rules: Sequence[FaultRule], targets: Iterable[Target], seed: int | str | None = None
) -> dict[int, tuple[Action, ...]]:
    """What is to be done to which frames of a recording, decided in recorded order: by number, none where nothing is.

    So the choice does not hang on the order in which a replay comes to the frames.
    """
    plan = FaultPlan(rules, seed)
    return {target.seq: actions for target in targets if (actions := plan.strike(target))}


def targets_of(frames: Iterable[Frame]) -> Iterator[Target]:
    """The frames of a recording that can be struck, in order."""
    asked: dict[int, Target] = {}
    said: dict[int, int] = {}
    for frame in frames:
        if is_hop(frame.peer):
            # Of an adapter's own traffic the agent sees nothing.
            continue
        peer, method, name, lane = (
            frame.peer or "",
            frame.method or "",
            frame.name or "",
            frame.lane or "",
        )
        if frame.kind == "request" and frame.way in ("core>", ">peer") and peer:
            whole = asked.get(frame.parent) if frame.parent is not None and frame.way == ">peer" else None
            if whole is not None and whole.peer == peer:
                # The gateway's own words for what the core has asked: one request.
                asked[frame.seq] = whole
                continue
            asked[frame.seq] = Target(frame.seq, "request", peer, method, name, lane, frame.seq)
            yield asked[frame.seq]
            continue
        if frame.way != "peer>":
            continue
        about = frame.re if frame.re is not None else frame.parent
        request = asked.get(about) if about is not None else None
        if request is not None:
            peer, lane = peer or request.peer, lane or request.lane
        on: On | None = None
        place = 0
        if frame.kind == "request":
            on = "question"
        elif frame.kind in ("response", "error") and request is not None:
            on = "answer"
            method, name = request.method, request.name
        elif frame.kind in ("notification", "chunk"):
            on = "chunk" if frame.kind == "chunk" else "notification"
            if request is not None:
                name = name or request.name
                place = said.get(request.seq, 0)
                said[request.seq] = place + 1
        if on is not None:
            belongs = request.seq if request is not None else None
            yield Target(frame.seq, on, peer, method, name, lane, belongs, place)


def sweep(targets: Iterable[Target], deeds: Sequence[Deed] = ("exit",)) -> Iterator[FaultRule]:
    """A rule for every frame and every one of the deeds that can strike it: each meant for a replay of its own."""
    for target in targets:
        for deed in deeds:
            if deed == "cut":
                if target.on in STRIKES["cut"] and target.place == 0 and target.request is not None:
                    yield FaultRule(deed=deed, on=target.on, at=target.request, keep=0)
            elif target.on in STRIKES[deed]:
                yield FaultRule(deed=deed, on=target.on, at=target.seq)


# Bytes


def corrupted(data: bytes, count: int, seed: int | str | None, seq: int) -> bytes:
    """The message with so many bytes changed at places that the seed chooses. Never makes or loses a line end."""
    changed = bytearray(data)
    places = [place for place, byte in enumerate(data) if byte != 0x0A]
    for number in range(min(count, len(places))):
        drawn = _digest(repr(seed).encode(), number, seq)
        place = places.pop(drawn % len(places))
        byte = changed[place]
        changed[place] = next(
            new for step in range(1, 256) if (new := byte ^ ((drawn >> 32) + step) & 0xFF) not in (byte, 0x0A)
        )
    return bytes(changed)


def half(data: bytes) -> bytes:
    """The first half of a message, at least a byte of it, and never all."""
    return data[: max(1, len(data) // 2)] if len(data) > 1 else b""


def _digest(seed: bytes, number: int, seq: int) -> int:
    return int.from_bytes(blake2b(b"%b:%d:%d" % (seed, number, seq), digest_size=8).digest())
