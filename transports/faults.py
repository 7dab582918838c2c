"""Breaks any connection on purpose, by rules: for tests and for drills.

Owns the rules and the decision which of them strikes (pure, repeatable: it counts messages, nothing else),
and the wrapper of link and receiver that carries it out. The transports know nothing of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from transports.base import Acceptor, Hello, Id, Link, Origin, Receiver, Stamp, TransportError

Way: TypeAlias = Literal["out", "in"]
Deed: TypeAlias = Literal["delay", "drop", "cut", "half", "duplicate", "garbage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One fault: what is done to which messages.

    `delay` holds the message and all later ones back for `delay_s`; `drop` loses it; `cut` ends the
    connection in its place; `half` sends its first half, without a line end where there are lines, and ends
    the connection; `duplicate` sends it twice; `garbage` sends `data` before it.
    """

    deed: Deed
    way: Way = "out"
    """`out`: what is sent by the wrapped side; `in`: what it receives."""
    containing: bytes = b""
    """Only messages that hold these bytes count."""
    first: int = 1
    """The first of those messages that is struck, counted from 1."""
    every: int = 1
    """And then every so many of them."""
    times: int | None = 1
    """How often the rule strikes; None: without end."""
    delay_s: float = 0.0
    data: bytes = b"\x00\xff garbage"


class Plan:
    """Decides, message by message, which rules strike. Pure but for its counters."""

    __slots__ = ("_rules", "_seen", "_struck")

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = tuple(rules)
        self._seen = [0] * len(self._rules)
        self._struck = [0] * len(self._rules)

    def strike(self, way: Way, message: bytes) -> list[Rule]:
        """The rules that strike this message, in the order in which they were given."""
        struck: list[Rule] = []
        for n, rule in enumerate(self._rules):
            if rule.way != way or rule.containing not in message:
                continue
            self._seen[n] += 1
            after = self._seen[n] - rule.first
            if after < 0 or after % rule.every or (rule.times is not None and self._struck[n] >= rule.times):
                continue
            self._struck[n] += 1
            struck.append(rule)
        return struck


@runtime_checkable
class _Raw(Protocol):
    def send_raw(self, data: bytes) -> None: ...


@runtime_checkable
class _Abortable(Protocol):
    def abort(self, fault: TransportError | None = None) -> None: ...


class _Lane:
    """One direction: does the deeds, keeps the order while something is delayed."""

    def __init__(self, plan: Plan, way: Way) -> None:
        self._plan = plan
        self._way: Way = way
        self._held: list[tuple[bytes, object, list[Rule]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self.ended = False

    def put(self, message: bytes, extra: object) -> None:
        rules = self._plan.strike(self._way, message)
        if self._timer is not None:
            self._held.append((message, extra, rules))
        else:
            self._apply(message, extra, rules)

    def stop(self) -> None:
        self.ended = True
        self._held.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _apply(self, message: bytes, extra: object, rules: list[Rule]) -> None:
        for n, rule in enumerate(rules):
            match rule.deed:
                case "delay":
                    self._held.insert(0, (message, extra, rules[n + 1 :]))
                    self._timer = asyncio.get_running_loop().call_later(rule.delay_s, self._release)
                    return
                case "drop":
                    return
                case "cut":
                    self.cut()
                    return
                case "half":
                    self.half(message, extra)
                    self.cut()
                    return
                case "duplicate":
                    self.emit(message, extra)
                case "garbage":
                    self.emit(rule.data, extra)
        self.emit(message, extra)

    def _release(self) -> None:
        self._timer = None
        while self._held and self._timer is None and not self.ended:
            self._apply(*self._held.pop(0))

    def emit(self, message: bytes, extra: object) -> None:
        raise NotImplementedError

    def half(self, message: bytes, extra: object) -> None:
        raise NotImplementedError

    def cut(self) -> None:
        raise NotImplementedError


class FaultyLink(_Lane):
    """A `Link` whose sending is struck by the `out` rules."""

    def __init__(self, link: Link, plan: Plan) -> None:
        super().__init__(plan, "out")
        self._link = link

    @property
    def stamped(self) -> bool:
        """As the wrapped link."""
        return self._link.stamped

    @property
    def queued_bytes(self) -> int:
        """As the wrapped link; what is delayed is not counted."""
        return self._link.queued_bytes

    def send(self, message: bytes, stamp: Stamp | None = None) -> None:
        """Send, or do what the rules say."""
        if not self.ended:
            self.put(message, stamp)

    def cancel(self, request_id: Id) -> bool:
        """As the wrapped link."""
        return self._link.cancel(request_id)

    def pause(self) -> None:
        """As the wrapped link."""
        self._link.pause()

    def resume(self) -> None:
        """As the wrapped link."""
        self._link.resume()

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Close; what is delayed is lost."""
        self.stop()
        self._link.close(code, reason)

    def emit(self, message: bytes, extra: object) -> None:
        """Send one message on the wrapped link."""
        self._link.send(message, extra if isinstance(extra, Stamp) else None)

    def half(self, message: bytes, extra: object) -> None:
        """Send the first half of a message, unframed where the link can."""
        part = message[: len(message) // 2]
        if isinstance(self._link, _Raw):
            self._link.send_raw(part)
        else:
            self.emit(part, extra)

    def cut(self) -> None:
        """End the wrapped connection: rudely after half a message, as rudely as it can otherwise."""
        self.stop()
        if isinstance(self._link, _Abortable):
            self._link.abort()
        else:
            self._link.close(1011, "cut by a fault rule")


class FaultyReceiver(_Lane):
    """A `Receiver` whose messages are struck by the `in` rules."""

    def __init__(self, receiver: Receiver, link: Link, plan: Plan) -> None:
        super().__init__(plan, "in")
        self._receiver = receiver
        self._link = link

    def message(self, data: bytes, origin: Origin | None = None) -> None:
        """Hand on, or do what the rules say."""
        if not self.ended:
            self.put(data, origin)

    def stray(self, data: bytes, why: str, *, size: int) -> None:
        """Hand on."""
        self._receiver.stray(data, why, size=size)

    def failed(self, fault: TransportError) -> None:
        """Hand on."""
        self._receiver.failed(fault)

    def writable(self, ready: bool) -> None:  # noqa: FBT001 - as in `Receiver`
        """Hand on."""
        self._receiver.writable(ready)

    def closed(self, fault: TransportError | None) -> None:
        """Hand on; what is delayed is lost."""
        self.stop()
        self._receiver.closed(fault)

    def emit(self, message: bytes, extra: object) -> None:
        """Hand one message to the wrapped receiver."""
        self._receiver.message(message, extra if isinstance(extra, Origin) else None)

    def half(self, message: bytes, extra: object) -> None:
        """Hand on the first half of a message as what is left of a stream."""
        part = message[: len(message) // 2]
        self._receiver.stray(part[:4096], "partial", size=len(part))

    def cut(self) -> None:
        """End the connection."""
        self.stop()
        if isinstance(self._link, _Abortable):
            self._link.abort(TransportError("closed", "The connection was cut by a fault rule."))
        else:
            self._link.close(1011, "cut by a fault rule")


def faulty(acceptor: Acceptor, rules: Sequence[Rule]) -> Acceptor:
    """Wrap an acceptor: every connection that it takes is struck by `rules`, each counting for itself."""

    def accept(link: Link, hello: Hello) -> Receiver:
        plan = Plan(rules)
        return FaultyReceiver(acceptor(FaultyLink(link, plan), hello), link, plan)

    return accept
