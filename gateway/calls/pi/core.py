"""A core that speaks Pi, as the exchange sees it: towards it an MCP client, towards the core one Pi extension.

Owns the joining: what the core asks of the one extension that stands for all peers becomes a request in MCP, and the
answer its one result. A connection is one extension in this protocol, and its registration replaces all that it said
before; so there is one for all peers, which registers again when their lists or hooks change. Events of the core become
questions for the peers' hooks, or are told; of host calls it makes those of `ui` alone. Messages and times come in as
calls, and what is to be said to either side goes out in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias

import msgspec

from gateway.calls import hook_words, translate
from gateway.calls.pi import commands, events, logs, to_pi, words
from gateway.calls.pi.core_calls import CoreCalls
from gateway.calls.pi.core_questions import CoreQuestion, CoreQuestions
from gateway.calls.pi.core_said import SCENARIO, Numbers, Said
from gateway.calls.pi.errors import error, table
from gateway.calls.pi.logs import NAME, Entry
from gateway.calls.pi.registration import Registration
from gateway.calls.reading import read_member
from gateway.hooks.points import POINTS
from gateway.protocol import jsonrpc, mcp, pi
from gateway.protocol.errors import METHOD_NOT_FOUND, Fault, error_object
from gateway.protocol.jsonrpc import BadMessage, Envelope, Id
from gateway.protocol.pi import BadPiMessage, Message, Salvaged
from gateway.protocol.pi_messages import (
    EMPTY,
    Error,
    EventHook,
    HostCall,
    HostResult,
    Log,
    Register,
    SlashCommand,
    ToolCall,
)

REGISTER_NS: Final = 8_000_000_000
"""How long peers may take to be listed before the registration: a host waits 10 s for it. What is late, comes late."""
QUESTIONS: Final = frozenset(("tool_call", "slash_command"))
LISTING: Final = ("registering", "loading", "running")
"""States in which lists that change are fetched."""
State: TypeAlias = Literal["greeting", "registering", "loading", "running", "closing", "closed"]
"""`registering`: peers are listed. `loading`: registered. `running`: from the core's `session_start` on."""

_encode = msgspec.json.Encoder().encode


class _Token(msgspec.Struct):
    token: Id | None = msgspec.field(name="progressToken", default=None)


class PiCore:
    """One connection of a core, from its opening at `now`. Times are monotonic nanoseconds; `stamp` is for the log."""

    def __init__(
        self,
        now: int,
        *,
        version: str = "1.0",
        stamp: Callable[[], str],
        most_bytes: int = pi.MAX_BYTES,
        most_depth: int = pi.MAX_DEPTH,
    ) -> None:
        self.state: State = "greeting"
        self.most_bytes = most_bytes
        self.most_depth = most_depth
        self._stamp = stamp
        self._deadline: int | None = now + REGISTER_NS
        self._registration = Registration(version)
        self._questions = CoreQuestions()
        self._calls = CoreCalls()
        self._numbers = Numbers()
        self._greeting = 0

    @property
    def next_deadline(self) -> int | None:
        """When `expired` has something to do; None while nothing waits."""
        return self._deadline

    def start(self) -> Said:
        """Greet the gateway."""
        params = {
            "protocolVersion": mcp.LATEST_LEGACY,
            "capabilities": {},
            "clientInfo": {"name": "pi-core", "version": "1.0"},
        }
        said = Said(self._numbers)
        self._greeting = said.request("initialize", _encode(params))
        return said

    def expired(self, now: int) -> Said:
        """Register with what is known when the lists take too long."""
        said = Said(self._numbers)
        if self._deadline is not None and now >= self._deadline:
            self._deadline = None
            if self.state == "registering":
                self._register(said)
        return said

    def shut_down(self) -> Said:
        """The gateway closes the connection: whoever waits still gets the one result."""
        said = Said(self._numbers)
        if self.state != "closed":
            self.state, self._deadline = "closed", None
            fault = Fault(
                code="io", message="the gateway has closed the session", reason="closed", outcome="unknown"
            )
            for id_ in list(self._questions.open):
                self._fail(said, id_, fault)
        return said

    def closed(self) -> None:
        """The core is gone: nothing is said any more."""
        self.state, self._deadline = "closed", None

    # What the core says.

    def from_core(self, data: bytes) -> Said:
        """Take one message of the core."""
        said = Said(self._numbers)
        if self.state == "closed":
            return said
        if len(data) > self.most_bytes:
            return self.too_long(data, len(data))
        try:
            message = pi.read(data, self.most_depth)
        except BadPiMessage as bad:
            self._refuse_damaged(said, bad.salvaged, bad.reason.replace("-", "_"), bad.message)
            return said
        body = message.body
        if isinstance(body, ToolCall | SlashCommand):
            self._asked(said, message, body)
        elif isinstance(body, EventHook):
            self._event(said, message, body)
        elif isinstance(body, Error):
            self._complained(said, message, body)
        elif isinstance(body, HostResult):
            self._host_result(said, message, body)
        elif isinstance(body, Register | HostCall):
            said.refuse(message.id, "wrong_direction", f"a host does not send `{message.type}`")
        elif not isinstance(body, Log):
            self._log_dropped(said, message, "no_open_call")
        return said

    def too_long(self, head: bytes, size: int) -> Said:
        """A message of the core was longer than allowed, and skipped; `head` is how it began."""
        said = Said(self._numbers)
        why = f"a message of {size} bytes, where {self.most_bytes} are allowed"
        self._refuse_damaged(said, pi.salvage(head), "message_too_large", why)
        return said

    def _asked(self, said: Said, message: Message, body: ToolCall | SlashCommand) -> None:
        key = body.call_id if isinstance(body, ToolCall) else message.id
        if self._questions.is_open(message.id):
            # An answer under this id would pass for the other question's.
            self._log_dropped(said, message, "id_in_use")
            return
        if self._questions.request_of(key) is not None:
            said.refuse(message.id, "call_id_in_use", f"there is a call {key[:64]!r} that has not ended")
            return
        one = CoreQuestion(message.id, key, isinstance(body, ToolCall))
        if self.state != "running":
            said.say(one.id, one.failed(self._not_running()))
            return
        if isinstance(body, ToolCall):
            more: dict[str, Any] = {"progressToken": self._numbers.requests + 1}
            if self._questions.was_judged(body.call_id):
                more[hook_words.META_JUDGED] = True
            id_ = said.request("tools/call", translate.stamp_meta(to_pi.call_params(body), more))
        else:
            params = commands.prompt_params(body, self._registration.arguments_of(body.name))
            if isinstance(params, Fault):
                said.say(one.id, one.failed(params))
                return
            id_ = said.request("prompts/get", params)
        self._questions.begin(id_, one)

    def _not_running(self) -> Fault:
        if self.state == "closing":
            return Fault(code="io", message="the session is over", reason="shutting_down")
        why = "not while loading: before `session_start` nothing is called"
        return Fault(code="invalid_request", message=why, reason="loading")

    def _event(self, said: Said, message: Message, body: EventHook) -> None:
        if body.event == events.SESSION_START:
            if self.state != "loading":
                # Whoever is told of a session twice does everything twice.
                self._log_dropped(said, message, "started_before")
                return
            self.state = "running"
            self._tells(said, body)
        elif body.event == events.SESSION_SHUTDOWN:
            self.state, self._deadline = "closing", None
        elif body.event == events.CANCEL:
            self._cancels(said, message, body)
        elif self.state == "running" and body.event in POINTS:
            self._hooked(said, message, body)
        else:
            if self.state == "running" and body.event == events.SHORTCUT:
                self._tells(said, body)
            if events.wants_answer(body):
                # Nobody has a hook for it, so there is no opinion.
                said.say(message.id, EventHook(event=body.event, data=EMPTY))

    def _hooked(self, said: Said, message: Message, body: EventHook) -> None:
        """An event that peers may have hooks for."""
        if not events.wants_answer(body):
            self._tells(said, body)
            return
        if not POINTS[body.event].is_asked or body.event not in (self._registration.hooks or ()):
            self._tells(said, body)
            said.say(message.id, EventHook(event=body.event, data=EMPTY))
            return
        if self._questions.request_of(message.id) is not None or self._questions.is_open(message.id):
            self._log_dropped(said, message, "id_in_use")
            return
        data = events.data_of(body)
        about = table(msgspec.json.decode(data)).get("toolCallId") if body.event == "tool_call" else None
        told = about if isinstance(about, str) else ""
        one = CoreQuestion(message.id, message.id, is_tool=False, event=body.event, tool_call=told)
        self._questions.begin(said.request(words.EVENT_HOOK, hook_words.event_params(body.event, data)), one)

    def _tells(self, said: Said, body: EventHook) -> None:
        said.notify(words.EVENT, hook_words.event_params(body.event, events.data_of(body)))

    def _cancels(self, said: Said, message: Message, body: EventHook) -> None:
        cancel = events.read_cancel(body)
        if isinstance(cancel, str):
            said.refuse(message.id, "malformed", cancel)
            return
        id_ = self._questions.request_of(cancel.call_id)
        if id_ is None:
            return
        params = {"requestId": id_, "reason": "cancelled by the core"}
        said.notify("notifications/cancelled", _encode(params))
        # In MCP what was cancelled gets no answer; here it still has its one end.
        fault = Fault(code="io", message="cancelled by the core", reason="cancelled", outcome="unknown")
        self._fail(said, id_, fault)

    def _host_result(self, said: Said, message: Message, body: HostResult) -> None:
        taken = self._calls.result(message.id, body)
        if isinstance(taken, str):
            self._log_dropped(said, message, taken)
        elif taken is not None:
            said.to_gateway.append(taken)

    def _complained(self, said: Said, message: Message, body: Error) -> None:
        answer = self._calls.error(message.id, body)
        if answer is not None:
            said.to_gateway.append(answer)
        elif message.id.startswith("r") and self.state == "loading":
            self.state, self._deadline, said.is_over = "closed", None, True
        else:
            self._log_dropped(said, message, body.code[:64])

    # What the gateway says.

    def from_gateway(self, data: bytes) -> Said:
        """Take one message that is meant for an MCP client."""
        said = Said(self._numbers)
        try:
            envelope = jsonrpc.read(data)
            kind = jsonrpc.kind_of(envelope)
        except BadMessage:
            return said
        if self.state == "closed":
            return said
        if kind == "notification":
            self._notified(said, envelope)
        elif kind == "request" and isinstance(envelope.id, int | str):
            self._was_asked(said, envelope.id, envelope.method, bytes(envelope.params))
        elif isinstance(envelope.id, int):
            self._answered(said, envelope.id, envelope)
        return said

    def _was_asked(self, said: Said, id_: Id, method: str, params: bytes) -> None:
        if method == "ping":
            said.to_gateway.append(jsonrpc.response(id_, b"{}"))
            return
        if method == words.HOST_CALL:
            fault = self._ask_core(said, id_, params)
        else:
            why = f"a Pi core is not asked for `{method[:64]}`"
            fault = Fault(
                code="invalid_request", message=why, reason="no_such_method", jsonrpc=METHOD_NOT_FOUND
            )
        if fault is not None:
            said.to_gateway.append(jsonrpc.error(id_, error_object(fault)))

    def _ask_core(self, said: Said, id_: Id, params: bytes) -> Fault | None:
        """Make a host call of the core, or return why none is made."""
        if self.state != "running":
            return Fault(code="denied", message="no UI: the session of the core does not run", reason="no_ui")
        asked = self._calls.ask(id_, params)
        if asked is None:
            return Fault(code="invalid_request", message="the host call cannot be read", reason="bad_params")
        key, call = asked
        message = pi.write(key, call)
        if len(message) <= self.most_bytes:
            said.to_core.append(message)
            return None
        self._calls.take_back(id_)
        why = f"the core takes no message of {len(message)} bytes; {self.most_bytes} are allowed"
        return Fault(code="invalid_request", message=why, reason="message_too_large")

    def _notified(self, said: Said, envelope: Envelope) -> None:
        method, params = envelope.method, bytes(envelope.params)
        if method == "notifications/progress":
            self._progressed(said, params)
        elif method == logs.MESSAGE:
            if (entry := logs.entry_of(params)) is not None:
                self._log(said, entry)
        elif method == "notifications/cancelled":
            self._taken_back(said, envelope)
        elif method == words.OFFERS_CHANGED and self.state in LISTING:
            self._registration.ask_for_offers(said.request)
        elif method.endswith("/list_changed") and self.state in LISTING:
            self._registration.ask_for_list(method.split("/")[1], said.request)

    def _taken_back(self, said: Said, envelope: Envelope) -> None:
        """The gateway needs no answer any more to what it asked of the core."""
        id_ = read_member(envelope, "requestId")
        key = self._calls.take_back(id_) if id_ is not None else None
        if key is not None and self.state == "running":
            data = events.without_answer(events.cancel_data(key))
            said.notice(EventHook(event=events.CANCEL, data=data))

    def _progressed(self, said: Said, params: bytes) -> None:
        try:
            token = msgspec.json.decode(params, type=_Token).token
        except msgspec.DecodeError:
            return
        one = self._questions.open.get(token) if isinstance(token, int) else None
        if one is not None and one.is_tool:
            told = to_pi.update(one.key, params, ts=self._stamp(), extension_id=NAME, scenario_id=SCENARIO)
            said.notice(told)

    def _answered(self, said: Said, id_: int, envelope: Envelope) -> None:
        result, fault = bytes(envelope.result), None
        if envelope.error:
            fault = to_pi.fault_of(bytes(envelope.error))
        if id_ == self._greeting:
            self._greeted(said, fault)
        elif id_ in self._questions.open:
            one = self._questions.end(id_)
            said.say(one.id, self._questions.answer(one, result) if fault is None else one.failed(fault))
        elif self._registration.answered(id_, result if fault is None else b"{}", said.request):
            self._register(said)

    def _greeted(self, said: Said, fault: Fault | None) -> None:
        if self.state != "greeting":
            return
        if fault is not None:
            said.notice(error(fault))
            self.state, self._deadline, said.is_over = "closed", None, True
            return
        self.state = "registering"
        said.notify("notifications/initialized")
        said.request("logging/setLevel", b'{"level":"info"}')
        self._registration.ask(said.request)

    def _register(self, said: Said) -> None:
        if self.state not in LISTING:
            return
        if self.state == "registering":
            self.state, self._deadline = "loading", None
        if (told := self._registration.news()) is not None:
            said.register(told)

    def _fail(self, said: Said, request: int, fault: Fault) -> None:
        """End a question that its peer does not answer."""
        one = self._questions.end(request)
        said.say(one.id, one.failed(fault))

    # What is against the rules.

    def _refuse_damaged(self, said: Said, known: Salvaged, reason: str, why: str) -> None:
        answer = self._calls.damaged(known.id, why) if known.type in ("host_result", "") else None
        if answer is not None:
            said.to_gateway.append(answer)
        if known.id is None or self._questions.is_open(known.id) or known.type not in (*QUESTIONS, ""):
            facts = {"reason": reason, "id": known.id, "type": known.type}
            self._log(said, Entry("warn", "pi.refused", why, facts))
            return
        said.refuse(known.id, reason, why)

    def _log_dropped(self, said: Said, message: Message, reason: str) -> None:
        facts = {"reason": reason, "id": message.id, "type": message.type}
        self._log(said, Entry("warn", "pi.dropped", f"a `{message.type}` goes nowhere", facts))

    def _log(self, said: Said, entry: Entry) -> None:
        # Before `session_start` an extension may only register.
        if self.state in ("running", "closing"):
            said.log(entry, self._stamp())
