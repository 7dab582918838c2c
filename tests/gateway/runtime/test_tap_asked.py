"""A call and its question, an answer and its decision: recorded by one write they are the frames that they are one by
one, on disk and for whoever is shown them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from gateway.hooks.order import Hook
from gateway.hooks.pipeline import Decision
from gateway.hooks.record import Form
from gateway.protocol.jsonrpc import LongCall
from gateway.runtime.null_tap import NullTap, RefusingTap
from gateway.runtime.observed import ObservedTap, ShownTap
from gateway.runtime.tap import RecordingTap
from recordings.frame import BLOB_BYTES
from recordings.redaction import Redactor
from recordings.segment import line_filled
from recordings.store import Recorder, open_recording
from tests.gateway.runtime.test_tap import Broken, tap_in

EVENT, METHOD = "tool_call", "pi/event_hook"
THEN = (
    "other",
    9,
    b'{"jsonrpc":"2.0","id":9,"method":"pi/event_hook","params":{"event":"tool_call","data":{}}}',
)
QUESTION = b'{"jsonrpc":"2.0","id":7,"method":"pi/event_hook","params":{"event":"tool_call","data":{}}}'
PATCH = b'[{"op":"replace","path":"/input","value":{"a":2}}]'


class Shown:
    """Keeps what it is shown, but for the times."""

    def __init__(self) -> None:
        self.items: list[Any] = []

    def put(self, item: Any) -> None:
        seq, _, kind, way, body, *rest = item
        if len(rest) == 1 and "x" in rest[0]:
            rest = [{**rest[0], "x": {**rest[0]["x"], "took_ns": 0}}]
        self.items.append((seq, kind, way, body, *rest))

    def ended(self) -> None:
        pass


def form(owner: str) -> Form:
    return Form(Decision(hook=Hook(owner=owner), event=EVENT, word="none"))


def played(
    tap: Any, call: bytes, patch: bytes, owner: str, *, at_once: bool, then: tuple[str, int, bytes] | None = None
) -> list[int]:  # fmt: skip
    """Record a call, its question, an answer and a decision, and then another question, if there is one; the numbers of
    the call and of the answer."""
    answer, facts = b'{"jsonrpc":"2.0","id":7,"result":{}}', form(owner)
    tap.record("mark", "inside", x={"first": True})
    asked = answered = -1
    if at_once:
        asked = tap.asking(call, "calc", 3, 0, "add", owner, 7, EVENT, QUESTION)
    if asked < 0:
        asked = tap.plain("request", "core>", call, "calc", 3, None, 0, "tools/call", "add")
        question: dict[str, Any] = {"peer": owner, "life": 1, "id": 7, "parent": asked, "method": METHOD}
        tap.record("request", ">peer", QUESTION, **question, name=EVENT, flags=("synthetic",))
    since = tap.at
    if at_once:
        answered = tap.deciding(
            answer, owner, 7, asked + 1, asked + 1, EVENT, patch, asked, facts, since, then
        )
    if answered < 0:
        answered = tap.plain("response", "peer>", answer, owner, 7, asked + 1, asked + 1, METHOD, "")
        decision: dict[str, Any] = {"peer": owner, "life": 1, "re": asked + 1, "parent": asked, "name": EVENT}
        tap.record("hook", "inside", patch, **decision, x=facts.x(tap.at - since))
        if then is not None:
            question = {"peer": then[0], "life": 1, "id": then[1], "parent": asked, "method": METHOD}
            tap.record("request", ">peer", then[2], **question, name=EVENT, flags=("synthetic",))
    tap.record("mark", "inside", x={"last": True})
    return [asked, answered]


def kept(folder: Path) -> list[Any]:
    found: list[Any] = []
    for frame in open_recording(folder):
        x = {**frame.x, "took_ns": 0} if frame.x and "took_ns" in frame.x else frame.x
        found.append((
            frame.seq, frame.kind, frame.peer, frame.life, frame.way, frame.id, frame.re, frame.parent, frame.after,
            frame.method, frame.name, frame.flags, bytes(frame.body), frame.blob, list((x or {}).items()),
        ))  # fmt: skip
    return found


@pytest.mark.parametrize(
    "patch", [b"", PATCH, b'[{"password":"hunter2-and-more"}]', b"[" + b"1" * BLOB_BYTES + b"]"]
)
@pytest.mark.parametrize("owner", ["guard", "é %d \"took_ns\":0"])  # fmt: skip
@pytest.mark.parametrize(
    "then", [None, THEN, ("é %d", 9, b'{"token":"hunter2-and-more"}'), ("x", 9, b'{"n": \n 1}')]
)
@pytest.mark.parametrize(
    "call", [b"{}", b'{"token":"hunter2-and-more"}', b'{"n": \n 1}', b"[" + b"1" * BLOB_BYTES + b"]"]
)
def test_by_one_write_the_frames_are_what_they_are_one_by_one(
    call: bytes, then: tuple[str, int, bytes] | None, owner: str, patch: bytes, tmp_path: Path
) -> None:
    shown = Shown(), Shown()
    for number, folder in enumerate(("one", "all")):
        recorder = Recorder(tmp_path / folder, durability="os", redactor=Redactor(b"k" * 32))
        tap = RecordingTap(recorder, on_refusal=lambda fault: None, on_close=lambda tap: None)
        observed = ObservedTap(tap, shown[number])
        assert played(observed, call, patch, owner, at_once=folder == "all", then=then) == [1, 3]
        assert observed.at == tap.at
        tap.end().close()
    assert kept(tmp_path / "all") == kept(tmp_path / "one")
    assert shown[1].items == [
        # By one write, the redactor's doubt about one of them is one about both.
        one if isinstance(one[4], dict) else (*one[:9], *other[9:10], *one[10:])
        for one, other in zip(shown[0].items, shown[1].items, strict=True)
    ]


@pytest.mark.parametrize(("owner", "secret"), [("guard-of-many", "guard-of-many"), ("guard", EVENT)])
def test_a_decision_whose_words_are_a_secret_is_redacted_once_they_are_known_for_one(
    owner: str, secret: str, tmp_path: Path
) -> None:
    for folder in ("one", "all"):
        redactor = Redactor(b"k" * 32)
        recorder = Recorder(tmp_path / folder, durability="os", redactor=redactor)
        tap = RecordingTap(recorder, on_refusal=lambda fault: None, on_close=lambda tap: None)
        played(tap, b"{}", b"", owner, at_once=folder == "all")
        redactor.know([secret])
        played(tap, b"{}", b"", owner, at_once=folder == "all")
        tap.end().close()
    assert kept(tmp_path / "all") == kept(tmp_path / "one")
    lines = (tmp_path / "all" / "frames.jsonl").read_bytes().splitlines()
    hooks = [line for line in lines if b'"kind":"hook"' in line]
    assert [secret.encode() in line for line in hooks] == [True, False]


def test_what_is_plain_is_written_at_once_and_counts_as_looked_at(tmp_path: Path) -> None:
    writes: list[bytes] = []

    class Disk(Broken):
        def write(self, fd: int, data: bytes) -> int:
            writes.append(data)
            return super().write(fd, data)

    recorder = Recorder(tmp_path / "r", durability="os", redactor=Redactor(b"k" * 32), write=Disk().write)
    tap = RecordingTap(recorder, on_refusal=lambda fault: None, on_close=lambda tap: None)
    played(tap, b"{}", PATCH, "guard", at_once=True)
    played(tap, b"{}", PATCH, "guard", at_once=True, then=THEN)
    assert [data.count(b"\n") for data in writes] == [1, 2, 2, 1, 1, 2, 3, 1]
    assert tap.unsuspected
    tap.end().close()


def test_what_cannot_be_written_at_once_is_neither_there_nor_numbered(tmp_path: Path) -> None:
    disk = Broken()
    recorder = Recorder(tmp_path / "recording", durability="os", write=disk.write)
    tap = RecordingTap(recorder, on_refusal=lambda fault: None, on_close=lambda tap: None)
    tap.record("mark", "inside", x={"first": True})
    before = (tmp_path / "recording" / "frames.jsonl").read_bytes()
    disk.broken = True
    assert tap.asking(b"{}", "calc", 3, 0, "add", "guard", 7, EVENT, QUESTION) == -1
    assert tap.deciding(b"{}", "guard", 7, 0, 0, EVENT, b"", 0, form("guard"), 0) == -1
    assert tap.deciding(b"{}", "guard", 7, 0, 0, EVENT, b"", 0, form("guard"), 0, THEN) == -1
    assert (tmp_path / "recording" / "frames.jsonl").read_bytes() == before
    disk.broken = False
    assert tap.asking(b"{}", "calc", 3, 0, "add", "guard", 7, EVENT, QUESTION) == 1
    assert tap.record("mark", "inside", x={"last": True}) == 3
    tap.end().close()


def test_a_block_that_is_due_is_closed_before_both(tmp_path: Path) -> None:
    tap = tap_in(str(tmp_path))
    tap.record("mark", "inside", x={"first": True})
    first, second = (line_filled(b'{"seq":%d,"at":%d,"kind":"mark"}', seq, 10**12) for seq in (1, 2))
    recorder = tap.end()
    assert recorder.append_both(first, second, b"", 1, tap.at + 10**9)
    recorder.close()
    lines = (tmp_path / "recording" / "frames.jsonl").read_bytes().splitlines()
    assert [b'"kind":"block"' in line for line in lines] == [False, True, False, False, True]


def test_a_recording_whose_answers_are_to_be_on_disk_first_records_each_for_itself(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "recording", durability="barrier")
    tap = RecordingTap(recorder, on_refusal=lambda fault: None, on_close=lambda tap: None)
    tap.record("mark", "inside", x={"first": True})
    assert tap.asking(b"{}", "calc", 3, 0, "add", "guard", 7, EVENT, QUESTION) == -1
    assert tap.deciding(b"{}", "guard", 7, 0, 0, EVENT, b"", 0, form("guard"), 0) == -1
    tap.end().close()


@pytest.mark.parametrize("then", [None, THEN])
def test_without_a_recording_frames_are_numbered(then: tuple[str, int, bytes] | None) -> None:
    tap = NullTap()
    assert played(tap, b"{}", b"", "guard", at_once=True, then=then) == [1, 3]
    assert tap.record("mark", "inside") == (6 if then is None else 7)
    assert RefusingTap().asking(b"{}", "calc", 3, 0, "add", "guard", 7, EVENT, QUESTION) == -1


def crowd(tap: Any, bodies: list[bytes], patches: list[bytes], *, together: bool) -> list[int]:
    """Record calls and their questions, and then the answers and the decisions; the numbers of the first of each."""
    answer = b'{"jsonrpc":"2.0","id":%d,"result":{}}'
    facts = form("guard")
    tap.record("mark", "inside", x={"first": True})
    rows = [(body, "calc", 3 + number, "add", 7 + number, QUESTION) for number, body in enumerate(bodies)]
    asked = tap.asking_together(0, "guard", EVENT, rows) if together else -1
    if asked < 0:
        asked = min([one_by_one(tap, body, id_, asked_as) for body, _, id_, _, asked_as, _ in rows])
    judged = [
        (answer % (7 + number), 7 + number, asked + 2 * number + 1, patch, asked + 2 * number, facts, tap.at)
        for number, patch in enumerate(patches)
    ]
    decided = tap.deciding_together("guard", asked + 1, EVENT, judged) if together else -1
    if decided < 0:
        decided = asked + 2 * len(rows)
        for body, id_, re, patch, seq, facts, since in judged:
            tap.plain("response", "peer>", body, "guard", id_, re, asked + 1, METHOD, "")
            decision: dict[str, Any] = {"peer": "guard", "life": 1, "re": re, "parent": seq, "name": EVENT}
            tap.record("hook", "inside", patch, **decision, x=facts.x(tap.at - since))
    tap.record("mark", "inside", x={"last": True})
    return [asked, decided]


def one_by_one(tap: Any, body: bytes, id_: int, asked_as: int) -> int:
    """Record a call and its question as the long way does."""
    seq: int = tap.plain("request", "core>", body, "calc", id_, None, 0, "tools/call", "add")
    facts: dict[str, Any] = {"peer": "guard", "life": 1, "id": asked_as, "parent": seq, "method": METHOD}
    tap.record("request", ">peer", QUESTION, **facts, name=EVENT, flags=("synthetic",))
    return seq


@pytest.mark.parametrize(
    "bodies",
    [
        [b"{}"] * 3,
        [b"{}", b'{"token":"hunter2-and-more"}', b"[]"],
        [b"{}", b'{"n": \n 1}'],
        [b"{}", b"[" + b"1" * BLOB_BYTES + b"]"],
    ],
)
@pytest.mark.parametrize("patch", [b"", PATCH, b'[{"password":"hunter2-and-more"}]'])
def test_what_came_together_is_by_one_write_what_it_is_one_by_one(
    bodies: list[bytes], patch: bytes, tmp_path: Path
) -> None:
    shown = Shown(), Shown()
    for number, folder in enumerate(("one", "all")):
        recorder = Recorder(tmp_path / folder, durability="os", redactor=Redactor(b"k" * 32))
        tap = ObservedTap(
            RecordingTap(recorder, on_refusal=lambda fault: None, on_close=lambda tap: None), shown[number]
        )
        count = len(bodies)
        patches = [patch, *[b""] * (count - 1)]
        assert crowd(tap, bodies, patches, together=folder == "all") == [1, 1 + 2 * count]
        recorder.close()
    assert kept(tmp_path / "all") == kept(tmp_path / "one")
    assert [item[:4] for item in shown[1].items] == [item[:4] for item in shown[0].items]


def test_without_a_recording_frames_that_came_together_are_numbered() -> None:
    assert crowd(NullTap(), [b"{}"] * 3, [b""] * 3, together=True) == [1, 7]


@pytest.mark.parametrize("durability", ["os", "barrier"])
@pytest.mark.parametrize("patch", [b"", PATCH, b'[{"password":"hunter2-and-more"}]'])
@pytest.mark.parametrize(
    "body", [b"{}", b'{"token":"hunter2-and-more"}', b'{"n": \n 1}', b"[" + b"1" * BLOB_BYTES + b"]"]
)
def test_a_tap_that_shows_its_frames_itself_shows_what_one_around_it_does(
    body: bytes, patch: bytes, durability: Literal["os", "barrier"], tmp_path: Path
) -> None:
    shown = Shown(), Shown()
    for number, folder in enumerate(("around", "itself")):
        recorder = Recorder(tmp_path / folder, durability=durability, redactor=Redactor(b"k" * 32))
        if folder == "itself":
            tap = ShownTap(recorder, shown[number], on_refusal=lambda fault: None, on_close=lambda tap: None)
        else:
            inner = RecordingTap(recorder, on_refusal=lambda fault: None, on_close=lambda tap: None)
            tap = ObservedTap(inner, shown[number])
        played(tap, body, patch, "guard", at_once=True)
        played(tap, body, patch, "guard", at_once=True, then=THEN)
        played(tap, body, patch, "guard", at_once=False)
        for together in (True, False):
            crowd(tap, [body, b"{}", b"[]"], [patch, b"", b""], together=together)
        tap.together(
            "request", "core>", 0, "tools/call", [("p", body, 5, None, "add"), ("p", b"{}", 6, None, "sub")]
        )
        tap.plain("request", "core>", body, "p", 9, None, 0, "tools/call", "add", LongCall(name="add"))
        tap.plain("request", "core>", body, "p", "text", None, None, "tools/call", "add")
        if b"\n" not in body:
            for id_, after in ((3, 0), ("text", 0), (4, None)):
                seq = tap.called(body, "p", id_, after, "add")
                tap.answered(body, "p", id_, seq, after)
        tap.record("notification", "core>", body, peer="p", method="notifications/progress")
        tap.record(
            "response", "peer>", body, peer="p", life=2, id=7, re=1, method="tools/call", flags=("late",)
        )
        assert tap.at <= tap.now()
        recorder.close()
    assert kept(tmp_path / "itself") == kept(tmp_path / "around")
    assert [by_name(item) for item in shown[1].items] == [by_name(item) for item in shown[0].items]
    told_of = [[item[-1] for item in one.items if isinstance(item[-1], LongCall)] for one in shown]
    assert len(told_of[0]) == 1
    assert len(told_of[1]) == (b"\n" not in body)


def test_what_records_frames_is_known_to_the_tap_that_shows_them() -> None:
    records = {
        "answered",
        "asking",
        "asking_together",
        "called",
        "deciding",
        "deciding_together",
        "plain",
        "record",
    }
    others = {"close", "end", "met", "now"}
    # Whatever comes to these is to be played to both above, and shown.
    assert {name for name in dir(RecordingTap) if not name.startswith("_")} == records | others | {"together"}
    assert records <= set(dir(ObservedTap))


def by_name(item: Any) -> Any:
    """What was shown, in whichever of both forms."""
    if len(item) == 5:
        seq, kind, way, body, facts = item
    else:
        seq, kind, way, body, *rest = item
        facts = dict(zip(("peer", "id", "re", "method", "name", "unsuspected", "read"), rest, strict=True))
    # What nobody says is unsuspected is looked at, and what nobody has read is read.
    return (
        seq,
        kind,
        way,
        body,
        {name: value for name, value in facts.items() if value and name not in ("after", "read")},
    )
