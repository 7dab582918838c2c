"""Lines of the log that `gateway.telemetry._speedups` writes against those that are written in Python."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import contextlib
import json
from collections import deque
from collections.abc import Callable, Iterable
from itertools import cycle
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from gateway.protocol.jsonrpc import BadMessage, scan
from gateway.protocol.log import line
from gateway.telemetry.facts import BIG_BYTES, Item, facts_of
from gateway.telemetry.kept import REMEMBERED, span_of, trace_of
from gateway.telemetry.ledger import Ledger
from gateway.telemetry.operations import Scene, Tracker
from gateway.telemetry.plain import LONGEST_KNOWN, MOST_KNOWN, PlainCalls
from gateway.telemetry.pump import WITH_BODY
from recordings.frame import Frame
from recordings.redaction import Redactor
from tests.gateway.telemetry.kit import SCENE, WRITER

_speedups = pytest.importorskip(
    "gateway.telemetry._speedups", reason="the speedups have not been compiled", exc_type=ImportError
)

SECRET = b"hunter2-hunter2"
CALL = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"a"}}}'
ANSWER = b'{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"b"}],"isError":false}}'
MS = 1_000_000


class Log:
    """What is made of frames: of plain ones in C where there is C, or in Python; of others by the long way."""

    def __init__(self, *, in_c: bool, scene: Scene = SCENE) -> None:
        self.written: list[bytes] = []
        self.redactor = Redactor(b"k" * 32)
        self.redactor.know([SECRET.decode()])
        self.ledger = Ledger(scene, WRITER, lambda entry: self.written.append(line(entry)))
        self.tracker = Tracker(scene, on_start=self.ledger.started, on_end=self.ledger.ended, has_parts=False)
        self.calls = PlainCalls(scene, WRITER, self.tracker, self.redactor.suspects, self.written.append)
        assert isinstance(self.calls._lines, _speedups.PlainLines)
        if not in_c:
            self.calls._lines = None

    def take(self, items: Iterable[Item], most: int = 32) -> None:
        """Give it frames, so many at a time."""
        queue = deque(items)
        while queue:
            waiting = len(queue)
            size = sum(len(item[4]) for item in queue)
            assert self.calls.take(queue, most) == size - sum(len(item[4]) for item in queue)
            assert waiting - len(queue) <= most
            if len(queue) == waiting:
                self._look(queue.popleft())

    def _look(self, item: Any) -> None:
        seq, at, kind, way, body, peer, id_, re, method, name, _, _ = item
        if kind not in WITH_BODY:
            return
        frame = Frame(
            seq=seq, at=at, kind=kind, way=way, body=Raw(body), peer=peer, id=id_, re=re, method=method, name=name
        )  # fmt: skip
        if self.redactor.suspects(body + f"{peer} {name} {method} {id_}".encode()):
            frame = self.redactor.frame(frame)
        facts = facts_of(frame, bytes(frame.body), hashed=True)
        self.tracker.see(facts)
        self.ledger.happened(facts)

    def state(self) -> list[object]:
        """Whatever of it anybody could tell."""
        kept = self.tracker.kept
        lines, is_open = b"".join(self.written), kept.plain.keys() | kept.open.keys()
        return [lines, is_open, list(kept.ended), kept.count, self.tracker.last]


def asked(seq: int, body: bytes = CALL, id_: Any = 7, **fields: Any) -> Item:
    """A frame of a call, plain but for what is said otherwise."""
    return _row(
        {"seq": seq, "at": seq * MS, "kind": "request", "way": "core>", "body": body, "id": id_} | fields
    )


def answered(seq: int, re: Any, body: bytes = ANSWER, **fields: Any) -> Item:
    """A frame of its result."""
    return _row(
        {"seq": seq, "at": seq * MS, "kind": "response", "way": "peer>", "body": body, "id": 7, "re": re, "name": ""}
        | fields
    )  # fmt: skip


def _row(fields: dict[str, Any]) -> Item:
    usual = {
        "peer": "db",
        "re": None,
        "method": "tools/call",
        "name": "echo",
        "unsuspected": True,
        "read": None,
    }
    found = usual | fields
    names = "seq", "at", "kind", "way", "body", "peer", "id", "re", "method", "name", "unsuspected", "read"
    return tuple(found[name] for name in names)  # type: ignore[return-value]


def same(data: bytes) -> None:
    """A message as a call, twice with other ids, and as a result: told of by both ways alike."""
    items: list[Item] = [asked(1), asked(2)]
    id_: Any
    try:
        id_ = scan(data)[0].id
    except BadMessage:
        id_ = "none"
    for seq in (3, 4):
        items += [asked(seq, data, id_, unsuspected=False)]
    if id_.__class__ is int:
        other = data.replace(b'"id":%d' % id_, b'"id":%d' % (id_ + 5), 1)
        with contextlib.suppress(BadMessage):
            items += [asked(5, other, scan(other)[0].id, unsuspected=False)]
    items += [answered(seq + 10, seq, data, unsuspected=False) for seq in range(1, 6)]
    same_of(items, [32, 3])


def same_of(items: list[Item], most: list[int]) -> None:
    """Frames, so many at a time: both ways leave the same behind, then and when the session has ended."""
    logs = Log(in_c=True), Log(in_c=False)
    turns, rest = cycle(most), items
    while rest:
        now, rest = rest[: 2 * (size := next(turns))], rest[2 * size :]
        for log in logs:
            log.take(now, size)
        assert logs[0].state() == logs[1].state()
    for log in logs:
        log.tracker.finish()
    assert logs[0].state() == logs[1].state()


bodies = st.sampled_from([
    CALL, ANSWER, b"", b"{}", b'{"id":7}',
    CALL.replace(b"echo", b"other"),
    CALL.replace(b'"arguments"', b'"_meta":{},"arguments"'),
    CALL.replace(b'"text":"a"', b'"id":7'),
    CALL.replace(b'"text":"a"', b'"n":0.5,"a":[{"id":70}]'),
    CALL.replace(b'"text":"a"', b'"n":1e400'),
    CALL.replace(b'"a"', b'"' + b"x" * LONGEST_KNOWN + b'"'),
    CALL.replace(b'"a"', b'"' + b"x" * BIG_BYTES + b'"'),
    b'{"params":{"name":"echo"},"method":"tools/call","jsonrpc":"2.0","id":7}',
    b'{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "echo"}}',
    ANSWER.replace(b"false", b"true"),
    ANSWER.replace(b'"isError":false', b'"isError": false'),
    ANSWER.replace(b'"isError":false', b'"resultType":"input_required"'),
    ANSWER.replace(b"isError", b"is\\u0045rror").replace(b"false", b"true"),
    ANSWER.replace(b'"b"', b'"\\u00e9 sE tT \\\\u0045"'),
    ANSWER.replace(b'"b"', b'"' + SECRET + b'"'),
    ANSWER.replace(b'"b"', b'"' + b"y" * BIG_BYTES + b'"'),
    b'{"jsonrpc":"2.0","id":7,"result":[]}',
    b'{"jsonrpc":"2.0","id":7,"result":{"isError":true}}',
])  # fmt: skip
texts = st.sampled_from(
    ["db", "echo", "", "other", "réponse", "100% %d", "[x]", SECRET.decode(), "tools/call", "prompts/get"]
)
ids = st.integers(-20, 20) | st.sampled_from(
    [0, -(2**63), 2**63 - 1, 2**63, 10**30, "7", "", True, None, 1.0]
)


NOTHING: st.SearchStrategy[dict[str, Any]] = st.just({})


@st.composite
def frames(draw: st.DrawFn) -> list[Item]:
    """Frames of calls and of results, most of them plain, and in the order in which they would pass."""
    found: list[Item] = []
    at = draw(st.integers(0, 10**10))
    for seq in range(1, draw(st.integers(1, 14)) + 1):
        at += draw(st.sampled_from([0, 1, 499, 500, 501, MS, 10**9, 2**61]) | st.integers(0, 10**11))
        odd: dict[str, Any] = draw(
            NOTHING
            | NOTHING
            | st.fixed_dictionaries(
                {},
                optional={
                    "kind": st.sampled_from(["request", "response", "error", "notification", ""]),
                    "way": st.sampled_from(["core>", "peer>", ">core", ">peer", "inside"]),
                    "peer": texts,
                    "method": texts,
                    "name": texts,
                    "unsuspected": st.booleans(),
                },
            )
        )
        if draw(st.booleans()):
            # The id of a frame is that of its body, whatever else is odd.
            id_: Any = draw(ids)
            body = draw(bodies).replace(b'"id":7', b'"id":' + json.dumps(id_).encode(), 1)
            found.append(asked(seq, body, id_, **{"at": at, **odd}))
        else:
            re = draw(st.integers(0, seq) | st.none())
            found.append(answered(seq, re, draw(st.just(ANSWER) | bodies), **{"at": at, **odd}))
    return found


@given(frames(), st.lists(st.integers(1, 9), min_size=1, max_size=3))
@settings(deadline=None, max_examples=300)
@example([asked(1), answered(2, 1), asked(3, CALL.replace(b":7", b":-12"), -12), answered(4, 3)], [1])
@example([asked(1), asked(1), answered(2, 1), answered(3, 1)], [9])
def test_both_ways_leave_the_same_lines_and_the_same_calls_behind(
    frames: list[Item], most: list[int]
) -> None:
    same_of(frames, most)


@given(
    st.sampled_from([CALL, ANSWER]),
    st.lists(st.tuples(st.integers(0, 120), st.binary(max_size=3)), max_size=3),
)
@settings(deadline=None, max_examples=300)
@example(b'{"jsonrpc":"2.0","id":7,"result":{"x":"\\\\"isError":false}}', [])
def test_both_ways_make_the_same_of_damaged_messages(message: bytes, damage: list[tuple[int, bytes]]) -> None:
    for at, piece in damage:
        message = message[:at] + piece + message[at + len(piece) :]
    same(message)


@pytest.mark.parametrize("message", [CALL, ANSWER])
def test_both_ways_make_the_same_of_messages_that_end_anywhere(message: bytes) -> None:
    for size in range(len(message) + 1):
        same(message[:size])


RESULTS = [
    b'"isError":true', b'"isError" : false', b'"isError":false', b'"isError": false', b'"isError":false,"isError":true',
    b'"resultType":"task"', b'"\\u0069sError":true', b'"is\\u0045rror":true', b'"isErro\\u0072":true',
    b'"res\\u0075ltType":"x"', b'"startTime":1', b'"a":"\\\\u0045"', b'"a":"\\u00e9"', b'"a":"\\u"', b'"sE', b'"sE"',
    b'"a":"\\u0',
]  # fmt: skip


@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize("before", [0, 5, *range(20, 37), 60, 70])
def test_what_says_of_an_error_is_seen_wherever_it_stands(result: bytes, before: int) -> None:
    """Whole blocks of a result are looked at together."""
    body = b'{"id":7,"result":{"x":"' + b"y" * before + b'",' + result
    for each in (body, body + b"}}"):
        same_of([asked(1), asked(2), answered(3, 2, each)], [9])


def test_a_long_session_leaves_the_same_log_and_as_few_calls_behind() -> None:
    logs = Log(in_c=True), Log(in_c=False)
    for log in logs:
        for number in range(REMEMBERED * 3):
            # Some are open for long, and their numbers grow.
            seq = 1 + number * 2
            body = CALL.replace(b'"id":7', b'"id":%d' % number).replace(b'"a"', b'"%d"' % (number // 3))
            answers = [answered(seq + 1, seq - 2 * (number % 2) * 5)] if seq > 10 else []
            log.take([asked(seq, body, number), *answers])
    assert logs[0].state() == logs[1].state()
    assert len(logs[0].tracker.kept.ended) < REMEMBERED * 2


def test_more_calls_than_are_known_again_are_told_alike() -> None:
    texts = [b"%d" % (number % (MOST_KNOWN + 300)) for number in range(3 * MOST_KNOWN)]
    items = [asked(seq, CALL.replace(b'"a"', b'"%b"' % text)) for seq, text in enumerate(texts, 1)]
    same_of(items, [32])


@pytest.mark.parametrize("size", [0, 1, 30, 60, 61, 80, 200])
def test_the_ids_of_sessions_of_any_name_are_the_same(size: int) -> None:
    scene = Scene(session="s" * size, seed=7, started=SCENE.started, transport="stdio")
    name = f"{scene.session} {scene.seed}".encode()
    if len(name) > _speedups.LONGEST_SEED:
        with pytest.raises(ValueError, match="too long"):
            _speedups.PlainLines({}, {}, {}, name, bool, divmod)
        log = PlainCalls(scene, WRITER, Tracker(scene, on_start=print, on_end=print), bool, print)
        assert log._lines is None
        return
    logs = Log(in_c=True, scene=scene), Log(in_c=False, scene=scene)
    for log in logs:
        for seq in (0, 1, 9, 10, 123_456, 2**63 - 1):
            log.take([asked(seq, at=5), asked(seq, at=6)])
    assert logs[0].state() == logs[1].state()


def test_the_ids_of_an_open_call_are_read_out_of_what_its_lines_say() -> None:
    log = Log(in_c=True)
    log.take([asked(1), asked(23, CALL.replace(b":7", b":-456"), -456)])
    lines = b"".join(log.written).splitlines()
    for told, (seq, call) in zip(map(json.loads, lines), log.tracker.kept.plain.items(), strict=True):
        told = told["correlation"]
        assert (told["trace_id"], told["span_id"]) == (trace_of(seq, call), span_of(seq, call))


# What is not told of in C


def second(at: int) -> tuple[int, str]:
    return at // 10**9 * 10**9, "now."


class Lines:
    """One that knows a call and holds an open one."""

    def __init__(self, suspects: Callable[[bytes], object] = bool) -> None:
        self.plain: dict[Any, Any] = {}
        self.asking: dict[int, int] = {}
        self.ended: dict[Any, Any] = {}
        pieces = ("a", "b", "c", "d", "e")
        self.known = "hash", "says", pieces[:3], pieces[:4], pieces
        self.lines = _speedups.PlainLines(self.plain, self.asking, self.ended, b"s 7", suspects, second)
        self.lines.learn("db", "echo", CALL, 7, self.known)

    def takes(self, *items: Any, most: int = 9) -> int:
        return self.lines.take(deque(items), most)


def test_a_call_that_is_known_and_its_result_are_told_of() -> None:
    lines = Lines()
    items = deque([asked(1), answered(2, 1), asked(3)])
    assert lines.lines.take(items, 2) == 2
    assert list(items) == [asked(3)]
    assert (lines.lines.count, lines.lines.last, lines.lines.taken) == (1, 2 * MS, len(CALL) + len(ANSWER))
    assert (lines.plain, list(lines.ended)) == ({}, [1])
    lines.lines.add("more")
    assert lines.lines.ready().endswith(b"more")
    assert lines.lines.ready() == b""


REFUSED_CALLS: dict[str, dict[str, Any]] = {
    "of another text": {"body": CALL.replace(b'"a"', b'"b"')},
    "whose id is not the one it says": {"id_": 8},
    "of another peer": {"peer": "other"},
    "of another name": {"name": "other"},
    "of another method": {"method": "prompts/get"},
    "that goes elsewhere": {"way": ">peer"},
    "that is a notification": {"kind": "notification"},
    "with a text for an id": {"id_": "7"},
    "with a truth for an id": {"id_": True},
    "without an id": {"id_": None},
    "with an id that does not fit": {"id_": 2**63},
    "with a frame below all": {"seq": -1},
    "with a frame that does not fit": {"seq": 2**63},
    "before the beginning": {"at": -1},
    "at a time that does not fit": {"at": 2**62},
    "of which was read": {"read": 0},
    "in other bytes": {"body": bytearray(CALL)},
    "that may hold a secret": {"unsuspected": False},
    "whose name is no text": {"name": None},
    "whose peer is no text": {"peer": None},
}


@pytest.mark.parametrize("which", REFUSED_CALLS)
def test_left_to_python_is_a_call(which: str) -> None:
    lines = Lines()
    odd = REFUSED_CALLS[which]
    items = deque([asked(odd.get("seq", 1), **{k: v for k, v in odd.items() if k != "seq"})])
    assert lines.lines.take(items, 9) == 0
    assert (len(items), lines.plain, lines.lines.ready()) == (1, {}, b"")


def test_left_to_python_is_a_call_that_is_too_long_to_be_known() -> None:
    lines = Lines()
    longest = CALL.replace(b'"a"', b'"' + b"a" * (LONGEST_KNOWN - len(CALL) + 1) + b'"')
    for body, told in ((longest, 1), (longest.replace(b'"a', b'"aa'), 0)):
        lines.lines.learn("db", "echo", body, 7, lines.known)
        assert lines.takes(asked(1, body)) == told


def test_left_to_python_are_calls_once_what_is_known_is_to_be_forgotten() -> None:
    lines = Lines()
    lines.lines.forget()
    assert lines.takes(asked(1)) == 0


def test_left_to_python_are_frames_of_another_shape() -> None:
    lines = Lines()
    items: list[Any] = [
        list(asked(1)),
        asked(1)[:11],
        (*asked(1), None),
        (1, 2, "hook", "inside", b"", {}),
        None,
    ]
    for item in items:
        assert lines.takes(item) == 0


REFUSED_RESULTS: dict[str, dict[str, Any]] = {
    "of a call that is not open": {"re": 5},
    "of none": {"re": None},
    "of a truth": {"re": True},
    "with a name": {"name": "echo"},
    "of another peer": {"peer": "other"},
    "that goes elsewhere": {"way": ">core"},
    "that is an error": {"kind": "error"},
    "of another method": {"method": "prompts/get"},
    "that is long": {"body": ANSWER.replace(b'"b"', b'"' + b"b" * BIG_BYTES + b'"')},
    "that says of an error": {"body": ANSWER.replace(b"false", b"true")},
    "that is not all": {"body": ANSWER.replace(b"isError", b"resultType")},
    "in letters that are escaped": {"body": ANSWER.replace(b"E", b"\\u0045")},
    "in an escape that is cut off": {"body": b'{"a":"\\u004'},
    "that may hold a secret": {"unsuspected": False},
    "after half of a microsecond": {"at": MS + 500},
    "after years": {"at": 2**61 - 1},
}


@pytest.mark.parametrize("which", REFUSED_RESULTS)
def test_left_to_python_is_a_result(which: str) -> None:
    lines = Lines()
    assert lines.takes(asked(1)) == 1
    before = dict(lines.plain), lines.lines.ready()
    assert before[1]
    odd: dict[str, Any] = {"re": 1, **REFUSED_RESULTS[which]}
    assert lines.takes(answered(2, odd.pop("re"), **odd)) == 0
    assert (lines.plain, lines.ended, lines.lines.count, lines.lines.ready()) == (before[0], {}, 0, b"")


def test_left_to_python_is_the_result_of_a_call_that_a_hook_is_asked_about() -> None:
    lines = Lines()
    lines.takes(asked(1))
    lines.asking[1] = 9
    assert lines.takes(answered(2, 1)) == 0
    del lines.asking[1]
    assert lines.takes(answered(2, 1)) == 1


def test_what_somebody_says_who_is_asked_is_passed_on_and_nothing_is_told() -> None:
    def fails(_: bytes) -> object:
        raise ZeroDivisionError

    lines = Lines(suspects=fails)
    with pytest.raises(ZeroDivisionError):
        lines.takes(asked(1, unsuspected=False))
    assert lines.takes(asked(1)) == 1


def test_what_was_told_before_somebody_who_is_asked_raised_is_counted() -> None:
    def fails(body: bytes) -> bool:
        if b"broken" in body:
            raise ZeroDivisionError
        return False

    log = Log(in_c=True)
    log.calls = PlainCalls(SCENE, WRITER, log.tracker, fails, log.written.append)
    log.take([asked(1), answered(2, 1), asked(3)])
    bad = asked(6, CALL.replace(b"echo", b"broken"), unsuspected=False)
    items = deque([asked(4), answered(5, 3), bad])
    with pytest.raises(ZeroDivisionError):
        log.calls.take(items, 9)
    assert list(items) == [bad]
    kept = log.tracker.kept
    assert (list(kept.ended), kept.count, log.tracker.last) == ([1, 3], 2, 5 * MS)
    log.take([answered(7, 4)])
    assert [each[0] for each in kept.ended.values()] == [0, 1, 2]


def test_who_is_asked_cannot_have_lines_taken_meanwhile() -> None:
    seen: list[type[BaseException]] = []

    def suspects(_: bytes) -> object:
        for way in (lines.lines.ready, lambda: lines.lines.add("x"), lambda: lines.takes(asked(3))):
            try:
                way()
            except RuntimeError as error:
                seen.append(type(error))
        lines.lines.forget()
        return False

    lines = Lines(suspects)
    assert lines.takes(asked(1, unsuspected=False)) == 0
    assert seen == [RuntimeError] * 3
    assert lines.lines.ready() == b""


@pytest.mark.parametrize(
    "told", [(MS + 1, "x"), (-(2**63), "x"), (MS - 10**9, "x"), (MS, 5), (MS,), MS, None]
)
def test_a_time_that_is_not_in_its_second_is_refused(told: Any) -> None:
    lines = _speedups.PlainLines({}, {}, {}, b"s", bool, lambda at: told)  # type: ignore[misc]
    lines.learn("db", "echo", CALL, 7, Lines().known)
    with pytest.raises((ValueError, TypeError)):
        lines.take(deque([asked(1)]), 1)
    assert lines.ready() == b""


@pytest.mark.parametrize("at", [1, 2, 3])
def test_pieces_that_are_none_are_refused(at: int) -> None:
    lines = Lines()
    known: list[Any] = list(lines.known)
    known[at] = ("a",) if at > 1 else b"says"
    lines.lines.learn("db", "echo", CALL, 7, tuple(known))
    with pytest.raises(TypeError):
        lines.takes(asked(1))
    assert lines.lines.ready() == b""
