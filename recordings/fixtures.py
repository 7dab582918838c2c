"""Conformance fixtures: what a recorded session asked and was answered, as JSON to be kept beside code.

Owns the form of a fixture, the making of one out of a recording, the recorded core that it stands for, and the
comparison of live answers with it. Who asks a live service, and where files lie, is the caller's business. The lines
of the extension log are data here: their own form is the telemetry's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, TypeAlias

import msgspec

from recordings.difference import Change, differences
from recordings.errors import Code, RecordingError
from recordings.form import former
from recordings.frame import NO_BODY, Frame, is_hop
from recordings.held import Held, Source
from recordings.operations import part_of
from recordings.profile import Profile

SCHEMA = "tieline.fixture.v1"
Compare: TypeAlias = Literal["exact", "normalised"]
Outcome: TypeAlias = Literal["result", "error", "none"]
_ANSWERS = frozenset(("response", "error"))
_VOLATILE = ("params_hash", "answer_bytes")
"""What a log line says of a message whose values differ from run to run."""


class FixtureError(RecordingError):
    """A fixture that cannot be used: one sentence without a period."""

    code: Code = "invalid_request"


class Request(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One request of the recorded core, and what it was answered."""

    seq: int
    answered: int | None = None
    """The frame of its answer: what came before it was known when later requests were sent."""
    id: int | str
    lane: str = ""
    peer: str = ""
    method: str
    name: str = ""
    compare: Compare = "exact"
    """`exact`: the same bytes, but for white space between tokens. `normalised`: the same but for volatile values."""
    outcome: Outcome = "none"
    params: msgspec.Raw = NO_BODY
    answer: msgspec.Raw = NO_BODY
    """The result, or the error object."""


class Message(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What else passed that the core has to say again: its notifications, its answers, and the questions to these."""

    seq: int
    way: Literal["core>", "peer>", ">core"]
    kind: Literal["request", "response", "error", "notification"]
    re: int | None = None
    method: str = ""
    body: msgspec.Raw = NO_BODY


class Fixture(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One session, as a fixture."""

    schema: str
    scenario_id: str
    transport: str = "stdio"
    transparent: bool = False
    peers: list[str]
    requests: list[Request]
    messages: list[Message] = []
    log: list[msgspec.Raw] = []
    """The session's extension log, normalised: one entry an item."""


class Failure(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One request that was answered otherwise, or one entry of the log that is another one."""

    event: str
    """What it is about: the method, or the `event` of a log entry."""
    ids: dict[str, str]
    """Correlation ids: `extension_id`, and whatever is more telling."""
    what: str
    seq: int | None = None
    changes: tuple[Change, ...] = ()


def fixture_of(
    source: Source,
    profile: Profile,
    scenario_id: str,
    *,
    transport: str,
    transparent: bool,
    peers: Iterable[str],
) -> Fixture:
    """Make a fixture of a recorded session, without its log.

    Raises:
        RecordingError: A body is missing.
    """
    requests: dict[int, Request] = {}
    messages: list[Message] = []
    for row in source.rows():
        if is_hop(row.peer):
            continue
        if row.way == "core>" and row.kind == "request":
            requests[row.seq] = _request(source, row.seq)
        elif row.way in ("peer>", ">core") and row.kind in _ANSWERS and row.re in requests:
            _answered(requests[row.re], row.seq, source.body(row.seq))
        elif row.way in ("peer>", ">core") and row.kind == "request":
            messages.append(Message(seq=row.seq, way=row.way, kind="request", method=row.method or ""))
        elif row.way == "core>" and row.kind in ("response", "error", "notification"):
            messages.append(
                Message(
                    seq=row.seq, way="core>", kind=row.kind, re=row.re, method=row.method or "",
                    body=msgspec.Raw(source.body(row.seq)),
                )
            )  # fmt: skip
    for request in requests.values():
        if request.outcome != "none" and normal_answer(profile, request) != _plain(request.answer):
            request.compare = "normalised"
    return Fixture(
        schema=SCHEMA, scenario_id=scenario_id, transport=transport, transparent=transparent, peers=list(peers),
        requests=list(requests.values()), messages=messages,
    )  # fmt: skip


class _Body(msgspec.Struct):
    params: msgspec.Raw = msgspec.Raw()


def _request(source: Source, seq: int) -> Request:
    frame = source.frame(seq)
    params = msgspec.json.decode(source.body(seq), type=_Body).params
    return Request(
        seq=seq, id=frame.id if isinstance(frame.id, int | str) else str(seq), lane=frame.lane or "",
        peer=frame.peer or "", method=frame.method or "", name=frame.name or "",
        params=msgspec.Raw(bytes(params)) if bytes(params) else NO_BODY,
    )  # fmt: skip


def _answered(request: Request, seq: int, body: bytes) -> None:
    if request.outcome != "none":
        return
    part, data = part_of(body)
    request.answered = seq
    request.outcome = "error" if part == "error" else "result"
    request.answer = msgspec.Raw(bytes(data))


def normal_answer(profile: Profile, request: Request) -> Any:
    """The answer of a request without the values that differ from run to run, as data."""
    part = "error" if request.outcome == "error" else "result"
    return former(profile).normal(
        request.method,
        request.name or None,
        bytes(request.answer),
        peer=request.peer or None,
        part=part,
    )


def _plain(answer: msgspec.Raw) -> Any:
    return msgspec.json.decode(answer) if bytes(answer) else None


# Files


def encoded(fixture: Fixture) -> bytes:
    """A fixture as a file: one request, message or log entry a line, answers verbatim."""
    head = msgspec.json.encode(msgspec.structs.replace(fixture, requests=[], messages=[], log=[]))
    lists = {"requests": fixture.requests, "messages": fixture.messages, "log": fixture.log}
    parts = [head.rstrip(b"}").replace(b',"requests":[]', b"").replace(b"{", b"{\n", 1)]
    for name, items in lists.items():
        lines = b",\n".join(msgspec.json.encode(item) for item in items)
        parts.append(
            b'"' + name.encode() + b'": [\n' + lines + b"\n]" if lines else b'"' + name.encode() + b'": []'
        )
    return b",\n".join(parts) + b"\n}\n"


def decoded(data: bytes, name: str) -> Fixture:
    """Read a fixture.

    Raises:
        FixtureError: If it is none; `name` is what it is called.
    """
    try:
        found = msgspec.json.decode(data, type=Fixture)
    except msgspec.DecodeError as fault:
        raise FixtureError(f"`{name}` is no fixture: {fault}") from fault
    if found.schema != SCHEMA:
        raise FixtureError(f"`{name}` is of schema `{found.schema}`, and not of `{SCHEMA}`")
    return found


def source_of_fixture(fixture: Fixture) -> Held:
    """What a recorded core reads, with nothing in it but what the fixture holds."""
    frames: list[Frame] = []
    for one in fixture.requests:
        where: dict[str, Any] = {"lane": one.lane or None, "peer": one.peer or None, "method": one.method}
        where["name"] = one.name or None
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": one.id, "method": one.method}
        if bytes(one.params):
            body["params"] = one.params
        frames.append(_frame(one.seq, "request", "core>", body, id=one.id, **where))
        if one.outcome != "none" and one.answered is not None:
            answer = {"jsonrpc": "2.0", "id": one.id, one.outcome: one.answer}
            kind = "response" if one.outcome == "result" else "error"
            frames.append(_frame(one.answered, kind, "peer>", answer, re=one.seq, **where))
    for each in fixture.messages:
        body = msgspec.json.decode(each.body, type=dict[str, msgspec.Raw]) if bytes(each.body) else {}
        frames.append(_frame(each.seq, each.kind, each.way, body, re=each.re, method=each.method or None))
    return Held(sorted(frames, key=lambda frame: frame.seq))


def _frame(seq: int, kind: Any, way: Any, body: dict[str, Any], **fields: Any) -> Frame:
    return Frame(seq=seq, kind=kind, way=way, body=msgspec.Raw(msgspec.json.encode(body)), **fields)


# Comparing


def failures_of(fixture: Fixture, live: Source, profile: Profile) -> Iterator[Failure]:
    """The requests of a fixture that the live services answered otherwise, in order.

    `live` is the recording of a session in which the core of the fixture was played: its nth request is the nth there.
    """
    asked: dict[int, Request] = {}
    for row in live.rows():
        if row.way == "core>" and row.kind == "request":
            asked[row.seq] = _request(live, row.seq)
        elif row.way in ("peer>", ">core") and row.kind in _ANSWERS and row.re in asked:
            _answered(asked[row.re], row.seq, live.body(row.seq))
    there = list(asked.values())
    for number, wanted in enumerate(fixture.requests):
        found = there[number] if number < len(there) else None
        if found is None or found.method != wanted.method:
            yield _failure(wanted, "was not asked again")
        elif found.outcome != wanted.outcome:
            yield _failure(wanted, _became(wanted, found), _changes(wanted, found))
        elif wanted.outcome != "none":
            yield from _compared(wanted, found, profile)


def _became(wanted: Request, found: Request) -> str:
    names = {"result": "a result", "error": "an error", "none": "no answer"}
    return f"{names[wanted.outcome]} became {names[found.outcome]}"


def _changes(wanted: Request, found: Request) -> tuple[Change, ...]:
    if not (bytes(wanted.answer) and bytes(found.answer)):
        return ()
    return differences(bytes(wanted.answer), bytes(found.answer))


def _compared(wanted: Request, found: Request, profile: Profile) -> Iterator[Failure]:
    if wanted.compare == "exact":
        before, after = (msgspec.json.format(bytes(each.answer), indent=-1) for each in (wanted, found))
        if before != after:
            changes = differences(before, after)
            yield _failure(wanted, "not the same bytes" if not changes else "not the same answer", changes)
        return
    normal = [_sorted(normal_answer(profile, each)) for each in (wanted, found)]
    if normal[0] != normal[1]:
        yield _failure(wanted, "not the same answer", differences(*normal))


_sorted: Callable[[Any], bytes] = msgspec.json.Encoder(order="sorted").encode


def _failure(request: Request, what: str, changes: tuple[Change, ...] = ()) -> Failure:
    ids = (
        {"extension_id": request.peer, "rpc_id": str(request.id)}
        if request.peer
        else {"rpc_id": str(request.id)}
    )
    if request.method == "tools/call":
        ids["tool_call_id"] = f"tool-{request.seq}"
    event = f"{request.method} {request.name}".strip()
    return Failure(event=event, ids=ids, what=what, seq=request.seq, changes=changes)


# The log


def requests_of(source: Source) -> list[int]:
    """The frames of the core's requests, in order."""
    return [row.seq for row in source.rows() if row.way == "core>" and row.kind == "request"]


def settled_log(
    entries: Iterable[dict[str, Any]], seqs: Iterable[int], fixture: Fixture, profile: Profile
) -> list[dict[str, Any]]:
    """The normalised log of a session of the fixture's core, so that two runs can be compared line by line.

    Frame numbers depend on how messages crossed: they become the ordinals of the session's requests. What is said of
    the bytes of a message that differs from run to run becomes a placeholder. `seqs` are the session's `requests_of`.
    """
    ordinals = {seq: number for number, seq in enumerate(seqs, 1)}
    steady = {number: _is_steady(request, profile) for number, request in enumerate(fixture.requests, 1)}
    made: list[dict[str, Any]] = []
    for entry in entries:
        data: dict[str, Any] = entry.get("data", {})
        correlation: dict[str, Any] = entry.get("correlation", {})
        seq = data.pop("seq", None)
        number = ordinals.get(seq)
        if number is not None:
            data["request"] = number
            if "tool_call_id" in correlation:
                correlation["tool_call_id"] = f"tool-{number}"
        elif "rpc_id" in correlation:
            # A question of a peer, which numbers these as it likes.
            correlation["rpc_id"] = "<rpc_id>"
        if "request_bytes" in data:
            # The core's white space.
            data["request_bytes"] = "<request_bytes>"
        if not steady.get(number or 0, False):
            data.update({name: f"<{name}>" for name in _VOLATILE if name in data})
        made.append(entry)
    return made


def _is_steady(request: Request, profile: Profile) -> bool:
    form = former(profile).form(
        request.method, request.name or None, bytes(request.params), peer=request.peer or None
    )
    return request.compare == "exact" and not form.values


def log_failures(fixture: Fixture, live: Iterable[dict[str, Any]]) -> Iterator[Failure]:
    """The log entries that differ, by event and correlation ids: in what order they stand is timing."""
    wanted = _by_id(msgspec.json.decode(entry, type=dict[str, Any]) for entry in fixture.log)
    found = _by_id(live)
    for which, entry in wanted.items():
        other = found.pop(which, None)
        if other is None:
            yield Failure(event=which[0], ids=_ids(entry), what="no such log entry")
        elif other != entry:
            changes = differences(_sorted(entry), _sorted(other))
            yield Failure(event=which[0], ids=_ids(entry), what="another log entry", changes=changes)
    for which, entry in found.items():
        yield Failure(event=which[0], ids=_ids(entry), what="a log entry more")


def _by_id(entries: Iterable[dict[str, Any]]) -> dict[tuple[str, str, int], dict[str, Any]]:
    counts: dict[tuple[str, str], int] = {}
    made: dict[tuple[str, str, int], dict[str, Any]] = {}
    for entry in entries:
        which = str(entry.get("event", "")), _sorted(_ids(entry)).decode()
        counts[which] = counts.get(which, 0) + 1
        made[*which, counts[which]] = entry
    return made


def _ids(entry: dict[str, Any]) -> dict[str, str]:
    ids: dict[str, str] = entry.get("correlation", {})
    return {key: value for key, value in ids.items() if not value.startswith("<") and key != "scenario_id"}
