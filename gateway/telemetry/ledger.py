"""From facts and operations to entries of the extension log: what is worth a line, and which.

Owns the names of events and the sentences. The form of an entry is `protocol.log`'s. Pure: the same facts give
the same lines, whether they come from a live session or from its recording.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from gateway.protocol import log
from gateway.protocol.log import Correlation, Entry, Level, Source
from gateway.telemetry.facts import EVENT_HOOK, Facts, Said, facts_of, target_of
from gateway.telemetry.operations import Operation, Scene, Tracker
from recordings.errors import MissingBlobError
from recordings.frame import is_hop

if TYPE_CHECKING:
    from recordings.reader import Recording

OWN_ID: Final = "tieline"
"""The `extension_id` of what concerns no peer."""

_LIFE: Final = {
    "spawn": ("extension.spawn", "extension process started"),
    "open": ("extension.open", "extension connected"),
    "ready": ("extension.ready", "extension is ready"),
    "exit": ("extension.exit", "extension process ended"),
    "restart": ("extension.restart", "extension is started again"),
    "close": ("extension.close", "extension connection ended"),
    "fault": ("extension.fault", "extension connection failed"),
}

OF_TOOL_CALLS: Final = ("tool_call", "tool_result")
"""Points of hooks at which a tool call is judged."""
_EVENTS: Final = {"tools/call": ("tool_call", "tool call"), EVENT_HOOK: ("event_hook", "event hook")}


class Writer(msgspec.Struct, frozen=True, kw_only=True):
    """What every entry of one gateway says of it."""

    scenario_id: str
    run_id: str | None = None
    host: str | None = None
    pid: int | None = None


class Ledger:
    """The log of one session. Entries come out by `put`, in the order of what they tell of."""

    def __init__(self, scene: Scene, writer: Writer, put: Callable[[Entry], None]) -> None:
        self._scene = scene
        self._writer = writer
        self._put = put
        self._source = Source(component="runtime", host=writer.host, pid=writer.pid)
        self._host_calls: dict[int, Operation] = {}
        """Those that have not ended, by their frames: decisions about them name the same ids."""
        self._nobodys: set[int] = set()
        """The frames of open requests of which it is not known yet whose they are."""

    def started(self, operation: Operation) -> None:
        """A request has come, or is about to be sent."""
        if not _is_told(operation):
            if operation.side == "server":
                self._nobodys.add(operation.seq)
            return
        if operation.host_call is not None:
            self._host_calls[operation.seq] = operation
        event, what = _named(operation)
        data = _about(operation)
        if operation.params_hash:
            data["params_hash"] = operation.params_hash
        data["request_bytes"] = operation.size
        self._entry(operation.start, "debug" if event == "request" else "info", f"{event}.start",
                    f"{what} dispatched", operation.peer, _ids(operation), data)  # fmt: skip

    def ended(self, operation: Operation) -> None:
        """It has its answer, or will have none."""
        if operation.seq in self._nobodys and operation.side == "server":
            self._nobodys.remove(operation.seq)
            # Its answer has said whose it was.
            self.started(operation)
            self._nobodys.discard(operation.seq)
        if not _is_told(operation) or operation.end is None:
            return
        self._host_calls.pop(operation.seq, None)
        event, what = _named(operation)
        data = _about(operation)
        if operation.host_call is not None and operation.params_hash:
            data["params_hash"] = operation.params_hash
        data["duration_ms"] = round(operation.took_ns / 1e6, 3)
        data["is_error"] = bool(operation.error)
        if operation.error:
            data["error"] = _error(operation)
        data["answer_bytes"] = operation.answer_size
        level: Level = "warn" if operation.error else "debug" if event == "request" else "info"
        self._entry(operation.end, level, f"{event}.end", f"{what} {_outcome(operation)}", operation.peer,
                    _ids(operation), data)  # fmt: skip
        if operation.host_call is not None and operation.host_call.said and not operation.error:
            self._said(operation, operation.host_call.said)

    def happened(self, facts: Facts) -> None:
        """Something else than a request or an answer has been recorded."""
        if is_hop(facts.peer):
            return
        told = _LIFE.get(facts.kind)
        if told is not None and facts.way == "inside" and facts.peer:
            event, message = told
            failed = bool(facts.x.get("code") or facts.x.get("signal"))
            level: Level = "error" if facts.kind == "fault" else "warn" if failed else "info"
            self._entry(facts.at, level, event, message, facts.peer, {}, _of(facts))
        elif facts.kind == "policy":
            self._decided(facts)
        elif facts.kind == "hook":
            level = "warn" if facts.x.get("fault") else "info"
            self._entry(facts.at, level, "hook.decision", f"hook decision: {facts.x.get('decision') or 'none'}",
                        facts.peer, _hook_ids(facts), _of(facts))  # fmt: skip
        elif facts.kind == "drop" and facts.re is None:
            self._entry(facts.at, "warn", "messages.dropped", "messages dropped", facts.peer, {}, _of(facts))

    def _said(self, operation: Operation, said: Said) -> None:
        """An extension has been allowed to say something here: in its own words, under the ids that we know."""
        source = msgspec.structs.replace(self._source, component="extension")
        self._entry(operation.start, said.level, log.clean(said.event), log.clean(said.message), operation.peer,
                    _ids(operation), {**(said.data or {}), "seq": operation.seq}, source)  # fmt: skip

    def _decided(self, facts: Facts) -> None:
        """The policy, or somebody who was asked, has said what may happen."""
        decision = str(facts.x.get("decision", "") or "taken")
        level: Level = "warn" if decision.startswith("den") or facts.x.get("warn") else "info"
        ids, data = _frame_ids(facts), _of(facts)
        call = self._host_calls.get(facts.parent) if facts.parent is not None else None
        if call is not None:
            ids = _ids(call)
            if call.params_hash:
                data["params_hash"] = call.params_hash
        self._entry(facts.at, level, "policy.decision", f"policy decision: {decision}", facts.peer, ids, data)

    def missed(self, at: int, frames: int) -> None:
        """So many frames came too fast to be told of; the recording has them."""
        self._entry(at, "warn", "log.incomplete", "frames left out of this log, see the recording", "", {},
                    {"frames": frames})  # fmt: skip

    def _entry(
        self,
        at: int,
        level: Level,
        event: str,
        message: str,
        peer: str,
        ids: dict[str, str],
        data: dict[str, Any],
        source: Source | None = None,
    ) -> None:
        writer = self._writer
        self._put(
            Entry(
                ts=log.timestamp(self._scene.started + at),
                level=level,
                event=event,
                message=message,
                correlation=Correlation(
                    extension_id=peer or OWN_ID,
                    scenario_id=writer.scenario_id,
                    session_id=self._scene.session,
                    run_id=writer.run_id,
                    **ids,
                ),
                source=source or self._source,
                data=data or None,
            )
        )


def entries_of(recording: Recording, writer: Writer) -> Iterator[Entry]:
    """Yield the log of a recording: what was, or would have been, written while it was live.

    Raises:
        DamagedError: If the recording is damaged, once everything before that is told.
    """
    header = recording.header
    scene = Scene(
        session=header.session,
        seed=header.seed,
        started=header.started,
        transport=header.core.transport if header.core else "",
    )
    ready: list[Entry] = []
    ledger = Ledger(scene, writer, ready.append)
    tracker = Tracker(scene, on_start=ledger.started, on_end=ledger.ended)
    for frame in recording:
        if frame.kind == "lost" and "synthetic" in frame.flags:
            continue
        try:
            body = recording.body(frame)
        except MissingBlobError:
            body = b""
        facts = facts_of(frame, body, hashed=True)
        tracker.see(facts)
        ledger.happened(facts)
        yield from ready
        ready.clear()
    tracker.finish()
    yield from ready


def _is_told(operation: Operation) -> bool:
    """Whether an operation is an extension's: the gateway's own legs and questions tell nothing more."""
    if operation.method == EVENT_HOOK:
        return operation.side == "client" and bool(operation.other)
    return operation.side == "server" and bool(operation.peer)


def _named(operation: Operation) -> tuple[str, str]:
    if operation.host_call is not None:
        return "host_call", "host call"
    if operation.is_command:
        return "slash_command", "slash command"
    return _EVENTS.get(operation.method, ("request", "request"))


def _about(operation: Operation) -> dict[str, Any]:
    what, target = target_of(operation.method, operation.name)
    data: dict[str, Any] = {"method": operation.method}
    if operation.host_call is not None:
        call = operation.host_call
        data = {"capability": call.capability, "method": call.verb}
        if call.timeout_ms is not None:
            data["timeout_ms"] = call.timeout_ms
    elif operation.method == EVENT_HOOK:
        data["hook"] = operation.name
    if what:
        data[what] = target
    if operation.lane:
        data["lane"] = operation.lane
    data["seq"] = operation.seq
    return data


def _error(operation: Operation) -> dict[str, Any]:
    """The taxonomy's code for an error of the gateway's own, else what kind it is; numbers as they came."""
    error: dict[str, Any] = {"code": operation.fault or operation.error}
    if operation.code is not None:
        error["code"] = operation.fault or "rpc_error"
        error["rpc_code"] = operation.code
    if operation.reason:
        error["reason"] = operation.reason
    return error


def _outcome(operation: Operation) -> str:
    if not operation.error:
        return "completed"
    return operation.error if operation.error in ("cancelled", "timeout") else "failed"


def _ids(operation: Operation) -> dict[str, str]:
    ids = {"trace_id": operation.trace_id, "span_id": operation.span_id}
    if operation.id is not None:
        ids["rpc_id"] = operation.id
    if operation.method == "tools/call":
        ids["tool_call_id"] = f"tool-{operation.seq}"
    elif operation.is_command:
        ids["slash_command_id"] = f"slash-{operation.seq}"
    elif operation.method == EVENT_HOOK:
        ids["event_id"] = f"event-{operation.seq}"
    elif operation.host_call is not None:
        ids["host_call_id"] = operation.host_call.call_id
        if operation.asked_by is not None:
            ids["tool_call_id"] = f"tool-{operation.asked_by}"
    return ids


def _frame_ids(facts: Facts) -> dict[str, str]:
    about = facts.parent if facts.parent is not None else facts.re
    return {"tool_call_id": f"tool-{about}"} if about is not None else {}


def _hook_ids(facts: Facts) -> dict[str, str]:
    ids = {"event_id": f"event-{facts.re if facts.re is not None else facts.seq}"}
    if facts.parent is None or facts.x.get("point") not in OF_TOOL_CALLS:
        return ids
    return {**ids, "tool_call_id": f"tool-{facts.parent}"}


def _of(facts: Facts) -> dict[str, Any]:
    data: dict[str, Any] = dict(facts.x)
    if facts.life > 1:
        data["life"] = facts.life
    if facts.name:
        data["name"] = facts.name
    data["seq"] = facts.seq
    return data
