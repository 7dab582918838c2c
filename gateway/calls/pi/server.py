"""An extension that answers as an MCP server: what a peer is told in MCP goes to it in Pi, and its words come back.

Owns the joining of `extension.py` and `to_mcp.py`: which request of the gateway became which question to the
extension. Messages come in as calls, and what is to be said to either side goes out in order. A host call becomes a
request to the gateway under its call id, and decides nothing; what is refused or dropped is told as a log line, which
whoever asked for logs gets.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Raw

from gateway.calls.pi import events, host_words, logs, to_mcp, to_pi, words
from gateway.calls.pi.effects import (
    Abandoned,
    Asked,
    Credited,
    Dropped,
    Effect,
    Ended,
    Failed,
    Logged,
    Refused,
    Registered,
    Send,
    Updated,
)
from gateway.calls.pi.extension import Extension
from gateway.calls.pi.extras import Extras, hint_for, read_extras
from gateway.calls.pi.limits import Limits
from gateway.calls.pi.offer import Offer
from gateway.protocol import jsonrpc, mcp
from gateway.protocol.errors import METHOD_NOT_FOUND, Fault, error_object
from gateway.protocol.jsonrpc import BadMessage, Envelope, Id
from gateway.protocol.pi_messages import EMPTY, HostCall

FOREVER: Final = 1 << 62
"""Whoever asks in MCP has a deadline of its own, and cancels."""
SLACK_NS: Final = 150_000_000_000
"""The gateway ends a host call in time by itself, and may ask a person first: this is for one that never does."""

Answer: TypeAlias = Callable[[Ended], bytes | Fault]


class Said(msgspec.Struct):
    """What is to be said now, to either side in order."""

    to_gateway: list[bytes] = msgspec.field(default_factory=list[bytes])
    to_extension: list[bytes] = msgspec.field(default_factory=list[bytes])
    fault: Fault | None = None
    """Why the connection is of no use any more."""


class _Open(msgspec.Struct):
    id: Id
    answer: Answer
    token: int | str | None
    told: float = 0
    """How far its progress is."""


class _Cancelled(msgspec.Struct):
    request: int | str = msgspec.field(name="requestId")


_cancelled = msgspec.json.Decoder(_Cancelled)
_encode = msgspec.json.Encoder().encode


class PiServer:
    """One connection to an extension, as the gateway's MCP side sees it. Times are monotonic nanoseconds."""

    def __init__(
        self,
        name: str,
        now: int,
        limits: Limits | None = None,
        *,
        context: Callable[[Id | None], dict[str, Any]] | None = None,
    ) -> None:
        """`context` gives what the extension is told with a request of the gateway, or, for None, with an event."""
        self._context = context or _nothing
        usual = limits or Limits()
        limits = msgspec.structs.replace(usual, host_slack_ns=max(usual.host_slack_ns, SLACK_NS))
        self.extension = Extension(name, now, limits=limits)
        self._greeting: tuple[Id, str] | None = None
        """The `initialize` that waits for the registration, and the version that it asks for."""
        self._offer: Offer | None = None
        self._extras = Extras()
        self._flags: frozenset[str] = frozenset()
        """The names of its own flags."""
        self._fault: Fault | None = None
        """Why it is of no use, once it is not."""
        self._open: dict[str, _Open] = {}
        self._keys: dict[Id, str] = {}
        self.ask_hook = self.extension.at_once.ask
        """As `from_gateway` with a `pi/event_hook` under an id, where nothing is in the way: the line to be sent; else
        None. `data` is an object, and so is `context`, which is empty where there is none."""
        self.hook_answered = self.extension.at_once.answered
        """As `from_extension` with the answer to what `ask_hook` has put: the gateway's request, and the result of
        that. None for every other message, which `from_extension` takes."""
        self._hosted: set[str] = set()
        """Host calls that the gateway has not ended, by their call ids."""

    @property
    def next_deadline(self) -> int | None:
        """When `expired` has something to do."""
        found = self.extension.next_deadline
        return None if found is None or found >= FOREVER else found

    def from_gateway(self, data: bytes, now: int) -> Said:
        """Take one message that is meant for an MCP server."""
        said = Said()
        try:
            envelope = jsonrpc.read(data)
            kind = jsonrpc.kind_of(envelope)
        except BadMessage:
            return said
        if kind == "notification":
            self._notified(said, envelope, now)
        elif kind == "request" and isinstance(envelope.id, int | str):
            self._asked(said, envelope.id, envelope)
        elif isinstance(envelope.id, str) and envelope.id in self._hosted:
            self._answered(said, envelope.id, envelope)
        return said

    def from_extension(self, data: bytes, now: int) -> Said:
        """Take one message of the extension."""
        return self._do(Said(), self.extension.received(data, now))

    def too_long(self, head: bytes, size: int) -> Said:
        """A message of the extension was longer than allowed, and skipped."""
        return self._do(Said(), self.extension.too_long(head, size))

    def expired(self, now: int) -> Said:
        """Do what is due."""
        return self._do(Said(), self.extension.expired(now))

    def shut_down(self, now: int) -> Said:
        """Tell the extension that the session ends."""
        return self._do(Said(), self.extension.shut_down(now))

    def closed(self, fault: Fault | None = None) -> Said:
        """The extension is gone."""
        return self._do(Said(), self.extension.closed(fault))

    # What the gateway wants.

    def _notified(self, said: Said, envelope: Envelope, now: int) -> None:
        if envelope.method == "notifications/initialized":
            started = self.extension.start(context=self._context_for(None))
            if not isinstance(started, Fault):
                self._do(said, started)
        elif envelope.method == words.EVENT:
            self._tell(said, bytes(envelope.params))
        elif envelope.method == "notifications/cancelled":
            try:
                id_ = _cancelled.decode(envelope.params).request
            except msgspec.DecodeError:
                return
            # Nobody waits for its answer; the extension's result ends it all the same.
            key = self._keys.pop(id_, None)
            if key is not None:
                del self._open[key]
            elif (question := self.extension.questions.asked_by(id_)) is not None:
                key, question.by = question.id, None
            if key is not None:
                self._do(said, self.extension.cancel(key, now))
        elif envelope.method == words.CHUNK:
            chunk = host_words.read_chunk(bytes(envelope.params))
            if chunk is not None and chunk.call_id in self._hosted:
                self._do(said, self.extension.chunk(chunk.call_id, chunk.output) or [])

    def _asked(self, said: Said, id_: Id, envelope: Envelope) -> None:
        method, offer = envelope.method, self._offer
        if self._fault is not None:
            self._refuse(said, id_, self._fault)
        elif method == "initialize":
            self._greeting = id_, to_mcp.version_of(bytes(envelope.params))
            self._greet(said)
        elif method in ("ping", "logging/setLevel"):
            said.to_gateway.append(jsonrpc.response(id_, b"{}"))
        elif offer is not None and method == "tools/list":
            said.to_gateway.append(jsonrpc.response(id_, to_mcp.tools_list(offer)))
        elif offer is not None and method == "prompts/list":
            said.to_gateway.append(jsonrpc.response(id_, to_mcp.prompts_list(offer)))
        elif method == "tools/call":
            self._call(said, id_, bytes(envelope.params))
        elif method == "prompts/get":
            self._command(said, id_, bytes(envelope.params))
        elif method == words.EVENT_HOOK:
            self._hook(said, id_, bytes(envelope.params))
        else:
            why = f"an extension has no `{method[:64]}`"
            fault = Fault(
                code="invalid_request", message=why, reason="no_such_method", jsonrpc=METHOD_NOT_FOUND
            )
            self._refuse(said, id_, fault)

    def _answered(self, said: Said, call_id: str, envelope: Envelope) -> None:
        """The gateway ends a host call."""
        self._hosted.discard(call_id)
        if envelope.error:
            fault = to_pi.fault_of(bytes(envelope.error))
            self._do(said, self.extension.answer(call_id, fault=fault))
        else:
            self._do(said, self.extension.answer(call_id, host_words.output_of(bytes(envelope.result))))

    def _call(self, said: Said, id_: Id, params: bytes) -> None:
        call = to_mcp.read_call(params, self._flags)
        if isinstance(call, Fault):
            self._refuse(said, id_, call)
            return
        context = self._context_for(id_, call.context)
        asked = self.extension.call_tool(call.name, call.input, FOREVER, context)
        answer = partial(_tool_answer, hint_for(self._extras, call.name).get("result"))
        self._ask(said, _Open(id_, answer, _token(params)), asked)

    def _command(self, said: Said, id_: Id, params: bytes) -> None:
        command = to_mcp.read_prompt(params)
        if isinstance(command, Fault):
            self._refuse(said, id_, command)
            return
        name, peer = command.name, self.extension.name

        def answer(ended: Ended) -> bytes | Fault:
            if ended.is_error:
                return to_mcp.command_fault(name, ended.output, peer)
            return to_mcp.prompt_result(ended.output)

        context = self._context_for(id_, command.context)
        asked = self.extension.run_command(name, command.args, FOREVER, context=context)
        self._ask(said, _Open(id_, answer, _token(params)), asked)

    def _context_for(self, id_: Id | None, more: Raw = EMPTY) -> Raw:
        """Return the context of what the extension is given; `more` is what the core says in it."""
        found = self._context(id_)
        if not found:
            return more
        told = msgspec.json.decode(more, type=dict[str, Any])
        if "flags" in told and "flags" in found:
            # What the core does not set is as it was declared.
            told["flags"] = found["flags"] | told["flags"]
        return Raw(_encode(found | told))

    def _hook(self, said: Said, id_: Id, params: bytes) -> None:
        asked = events.read_event(params)
        if isinstance(asked, Fault):
            self._refuse(said, id_, asked)
            return
        effects = self.extension.ask_hook(asked.event, asked.data, FOREVER, self._context_for(id_))
        self._ask(said, _Open(id_, _hook_answer, None), effects)

    def _tell(self, said: Said, params: bytes) -> None:
        asked = events.read_event(params)
        if not isinstance(asked, Fault):
            effects = self.extension.tell(asked.event, asked.data, self._context_for(None))
            # Of what it has no hook for any more, it is not told.
            self._do(said, [] if isinstance(effects, Fault) else effects)

    def _ask(self, said: Said, one: _Open, asked: list[Effect] | Fault) -> None:
        if isinstance(asked, Fault):
            self._refuse(said, one.id, asked)
            return
        [key] = [effect.id for effect in asked if isinstance(effect, Send) and effect.asks]
        self._open[key] = one
        self._keys[one.id] = key
        self._do(said, asked)

    def _refuse(self, said: Said, id_: Id, fault: Fault) -> None:
        said.to_gateway.append(jsonrpc.error(id_, error_object(fault)))

    def _greet(self, said: Said) -> None:
        if self._greeting is None or self._offer is None:
            return
        id_, version = self._greeting
        self._greeting = None
        said.to_gateway.append(jsonrpc.response(id_, to_mcp.facts(self._offer, version)))

    # What the extension gives.

    def _do(self, said: Said, effects: list[Effect]) -> Said:
        for effect in effects:
            match effect:
                case Send():
                    said.to_extension.append(effect.message)
                case Registered():
                    before, self._offer = self._offer, effect.offer
                    self._extras = read_extras(msgspec.json.decode(effect.offer.declared))
                    self._flags = frozenset(one.name for one in self._extras.declared if one.kind == "flag")
                    if before is not None:
                        told = jsonrpc.notification(words.REGISTERED, bytes(effect.offer.declared))
                        said.to_gateway.append(told)
                        said.to_gateway += map(jsonrpc.notification, to_mcp.changes(before, effect.offer))
                    self._greet(said)
                case Ended():
                    self._ended(said, effect)
                case Updated():
                    self._updated(said, effect)
                case Logged():
                    said.to_gateway.append(logs.told(effect.log))
                case Failed():
                    self._fault = said.fault = effect.fault
                    if self._greeting is not None:
                        id_, _ = self._greeting
                        self._greeting = None
                        self._refuse(said, id_, effect.fault)
                case Refused():
                    said.to_gateway.append(logs.refused(effect))
                case Dropped():
                    said.to_gateway.append(logs.dropped(effect))
                case _:
                    self._host(said, effect)
        return said

    def _ended(self, said: Said, ended: Ended) -> None:
        one = self._open.pop(ended.key, None)
        if one is not None:
            self._keys.pop(one.id, None)
        elif ended.by is not None:
            one = _Open(ended.by, _hook_answer, None)
        else:
            return
        result = ended.fault or one.answer(ended)
        if isinstance(result, Fault):
            self._refuse(said, one.id, result)
        else:
            said.to_gateway.append(jsonrpc.response(one.id, result))

    def _host(self, said: Said, effect: Effect) -> None:
        """What concerns host calls. The rest concerns the process, which its owner ends."""
        match effect:
            case Asked():
                self._asks(said, effect)
            case Abandoned():
                self._abandons(said, effect)
            case Credited():
                params = {"call_id": effect.call_id, "credits": effect.credits}
                said.to_gateway.append(jsonrpc.notification(words.CREDIT, _encode(params)))
            case _:
                pass

    def _asks(self, said: Said, asked: Asked) -> None:
        """The extension wants something of its host."""
        call = asked.call
        self._hosted.add(call.call_id)
        params = host_words.asked(asked.payload, self._about(call))
        said.to_gateway.append(jsonrpc.request(call.call_id, words.HOST_CALL, params))

    def _about(self, call: HostCall) -> Id | None:
        """The gateway's request in whose course a host call is made: the one that it names, or the only open one."""
        named = self._open.get(host_words.tool_call_of(call))
        if named is None and len(self._open) == 1:
            [named] = self._open.values()
        return named.id if named is not None else None

    def _abandons(self, said: Said, abandoned: Abandoned) -> None:
        """Nobody waits for a host call any more, or it has been ended without the gateway."""
        if abandoned.why != "cancelled":
            self._hosted.discard(abandoned.call_id)
        params = {"requestId": abandoned.call_id, "reason": abandoned.why}
        said.to_gateway.append(jsonrpc.notification("notifications/cancelled", _encode(params)))

    def _updated(self, said: Said, update: Updated) -> None:
        one = self._open.get(update.key)
        if one is not None and one.token is not None:
            params, one.told = to_mcp.progress(one.token, update.log, one.told)
            said.to_gateway.append(jsonrpc.notification("notifications/progress", params))


def _nothing(_: Id | None) -> dict[str, Any]:
    return {}


def _tool_answer(hints: object, ended: Ended) -> bytes:
    return to_mcp.call_result(ended.output, is_error=ended.is_error, hints=hints)


def _hook_answer(ended: Ended) -> bytes:
    return to_mcp.hook_result(bytes(ended.output))


def _token(params: bytes) -> int | str | None:
    try:
        return mcp.read_params.decode(params).meta.token
    except msgspec.DecodeError:
        return None
