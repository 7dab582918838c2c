"""Arguments that each function in C has an answer to, or a type a use for: what is thrown at it is made of them.

A function that is here no more, or that is not here yet, fails a test of `test_examples`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, cast

from tests.speedups.throwing import Arguments


@dataclass(frozen=True)
class Kind:
    """A type in C: how one of it is made, and what its methods take."""

    make: Callable[[ModuleType], Any]
    construct: Callable[[ModuleType], tuple[Arguments, ...]]
    """What the type itself is called with."""
    methods: dict[str, tuple[Arguments, ...]] = field(default_factory=dict[str, tuple[Arguments, ...]])
    around: dict[str, tuple[Arguments, ...]] = field(default_factory=dict[str, tuple[Arguments, ...]])
    """Methods of what `make` makes that are not in C: what may happen to it in between."""


MESSAGES: tuple[bytes, ...] = (
    b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"a","n":[1,-2e3,null]}}}',
    b'{"jsonrpc":"2.0","id":-1,"method":"tools/call","params":{"name":"e","_meta":{"progressToken":1},"arguments":{}}}',
    b'{ "method":"tools/call" , "id" : 0, "params" : { "arguments" : [ ] , "name" : "\xc3\xa9" } , "jsonrpc" : "2.0" }',
    b'{"jsonrpc":"2.0","id":12345678901234567,"result":{"content":[{"type":"text","text":"\\u00e9\\ud83d\\ude00\\n"}]}}',
    b'{"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":{"a":[[[true,false]]]},"isError":false}}\n',
    b'{"jsonrpc":"2.0","id":"a","error":{"code":-32602,"message":"no"}}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7,"reason":"r"}}',
    b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"' + b"y" * 230 + b'"}]}}',
)
"""What passes a gateway. Functions that hold C and Python equal are given these, damaged."""

CALL, ASKED, SPACED, ANSWER, RESULT = MESSAGES[:5]

ANY: tuple[Arguments, ...] = (*((message,) for message in MESSAGES), (b"",), (b"x" * 7000,))
"""For functions of any bytes."""

FUNCTIONS: dict[str, tuple[Arguments, ...]] = {
    "gateway.protocol.answer_line": ((7, b"{}"), (-(2**63), b""), (10**40, b"[1]")),
    "gateway.protocol.call_line": ((7, b'{"name":"echo"}'), (-(2**63), b""), (10**40, b"{}")),
    "gateway.protocol.read_answer": ((ANSWER, 100), (RESULT, 100), (MESSAGES[7], 5)),
    "gateway.protocol.read_asked": ((CALL, 100), (SPACED, 100)),
    "gateway.protocol.read_call": ((CALL, 100), (SPACED, 100)),
    "recordings.crc32c": ANY,
    "recordings.crc32c_by_table": ANY,
    "recordings.line_filled": (
        (b'{"seq":%d,"at":%d,"kind":"request","body":%b}', 7, 2**62, CALL),
        (b'{"seq":%d,"re":%d,"text":"100%%","body":%b}', 2**63 - 1, -1, b"x" * 3000),
        (b'{"seq":%d,"at":%d,"way":"%b","name":"%b","lane":"%b","id":%d,"after":%d,"body":%b}',
         12, 345, b"core>", b"echo", b"turn1", 0, 11, ANSWER),
        (b'{"a":1}',),
    ),
    "recordings.line_from": ANY,
}  # fmt: skip


def _nothing(*_: object) -> None:
    """What is asked back does nothing."""


ASKED_BACK: dict[str, object] = dict.fromkeys(
    ("send", "_feed", "_nothing_read", "_was_reset", "_tell_fault", "_refused", "_took"), _nothing
)
"""What a link in Python has of its own, and is asked by what is in C."""


def _second(at: int) -> tuple[int, str]:
    """As a clock has it."""
    return at // 10**9 * 10**9, "2026-01-02T03:04:05."


_PIECES = ('{"at":"', 'Z","a":', "é", "}", "\n")
_KNOWN = "ab12", '"hash":"ab12"', _PIECES[:3], _PIECES[:4], _PIECES


class LogLines:
    """Lines of a log in C that know two calls, and are given frames in a list."""

    def __init__(self, module: ModuleType) -> None:
        self.plain: dict[Any, Any] = {}
        self.ended: dict[Any, Any] = {}
        self.lines = module.PlainLines(self.plain, {99: 1}, self.ended, b"seed 7", _suspects, _second)
        for body, id_ in ((CALL, 7), (ASKED, -1)):
            self.lines.learn("db", "echo", body, id_, _KNOWN)
        self.learn, self.add, self.ready = self.lines.learn, self.lines.add, self.lines.ready
        self.forget = self.lines.forget

    def take(self, *given: Any) -> int:
        """As the C has it."""
        return self.lines.take(
            *(deque(cast("list[Any]", each)) if isinstance(each, list) else each for each in given)
        )

    def drop(self) -> None:
        """Have somebody else take the open calls away."""
        self.plain.clear()
        self.ended.clear()


def _suspects(body: bytes) -> bool:
    return b"hunter2" in body


def _asked(
    seq: int, body: bytes, id_: int, *, read: bool | None = None, unsuspected: bool = True
) -> Arguments:
    at = 10**9 + seq * 499_000_000
    return seq, at, "request", "core>", body, "db", id_, None, "tools/call", "echo", unsuspected, read


def _answered(seq: int, re: int, body: bytes) -> Arguments:
    at = 10**9 + seq * 499_000_001
    return seq, at, "response", "peer>", body, "db", 7, re, "tools/call", "", False, None


ROWS: list[Arguments] = [
    _asked(1, CALL, 7), _answered(2, 1, ANSWER), _asked(3, ASKED, -1, unsuspected=False), _asked(4, CALL, 7),
    _answered(5, 4, RESULT), _answered(6, 3, MESSAGES[7]), _asked(7, CALL, 7), (8, 9, "hook", "inside", b"", {}),
]  # fmt: skip


def _waiting(module: ModuleType) -> Any:
    """One that waits for somebody who looks at it after every few frames, as it is told."""
    items: deque[Any] = deque()
    made = type("Stream", (module.Waiting,), {"_put": _nothing, "look": items.clear, "list": _listed})
    return made(module.Load(), items, 1000, 5, 4000)


def _listed(waiting: Any, is_listed: object) -> None:
    waiting.is_listed = bool(is_listed)
    waiting.load.bytes = 0


KINDS: dict[str, Kind] = {
    "gateway.telemetry.Load": Kind(make=lambda module: module.Load(), construct=lambda _: ((),)),
    "gateway.telemetry.Waiting": Kind(
        make=_waiting,
        construct=lambda module: (
            (module.Load(), deque[Any](), 1000, 5, 4000),
            (module.Load(), [], -1, 2**62, 0),
        ),
        methods={"put": ((ROWS[0],), (ROWS[7],), (_asked(9, b"x" * 7000, 7),))},
        around={"look": ((),), "list": ((True,), (True,), (False,))},
    ),
    "gateway.telemetry.PlainLines": Kind(
        make=LogLines,
        construct=lambda _: (
            ({}, {}, {}, b"seed 7", _suspects, _second),
            ({1: 2}, {1: 2}, {1: 2}, b"x" * 80, _suspects, _second),
        ),
        methods={
            "take": ((ROWS, 9), (ROWS, 1), (ROWS[2:], 3), (ROWS[3:4] * 3, 2), ([], 5)),
            "add": (("{}\n",), ("é" * 300,), ("",)),
            "ready": ((),),
            "learn": (
                ("db", "echo", CALL, 7, _KNOWN),
                ("db", "echo", ASKED, -1, _KNOWN),
                ("a", "b", b"{}", 2**70, _KNOWN),
            ),
            "forget": ((),),
        },
        around={"drop": ((),)},
    ),
    # What it says of bytes, `tests/recordings/test_speedups_glance.py` holds equal.
    "recordings.Glance": Kind(
        make=lambda module: module.Glance(_nothing, (b"hunter2-hunter2",)),
        construct=lambda _: (
            (_nothing, ()),
            (_nothing, (b"hunter2-hunter2", b"x" * 400)),
            (_nothing, {b"four": b""}),
        ),
    ),
    # Without descriptors: nothing is read or written. What is, `tests/transports` holds equal.
    "transports.PlainLines": Kind(
        make=lambda module: type("Link", (module.PlainLines,), ASKED_BACK)(module.PlainTurn()),
        construct=lambda module: ((module.PlainTurn(),),),
        methods={
            "_on_readable": ((), (0,), (15,)),
            "send_line": ((b"{}\n",), (b"",), (b"x" * 20_000 + b"\n",)),
        },
    ),
    "transports.PlainTurn": Kind(make=lambda module: module.PlainTurn(), construct=lambda _: ((),)),
}
