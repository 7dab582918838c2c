"""What extensions show and ask of people: the host call `ui`, in the words of whatever core the session has.

Owns the mapping, which is the same for the gateway's own questions: to a Pi core a request of `ui` stays the host call
that it is; an MCP core is asked by elicitation where the answer fits a flat form, and told by its log. A terminal of
the gateway's own, where there is one, comes before both. Whom to ask is known to `asks`, what to ask to the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from gateway.calls.asks import OwnAsk, PeerAsk
from gateway.calls.call import Call, Reply
from gateway.calls.faults import bad_host_call
from gateway.calls.host_terminal import Shown
from gateway.calls.pi import to_pi, words
from gateway.protocol import jsonrpc, mcp
from gateway.protocol.errors import Fault, unrecorded

if TYPE_CHECKING:
    from gateway.calls.core_state import Core
    from gateway.calls.host_call import Hosted
    from gateway.calls.ports import Terminal
    from gateway.calls.session import Session

Question: TypeAlias = OwnAsk | Shown
"""What waits for a person."""
Kind: TypeAlias = Literal[
    "select", "confirm", "input", "editor", "notify", "status", "widget", "title", "custom"
]
TOLD: Final = frozenset(("notify", "status", "widget", "title"))
"""What nobody answers."""
ELICIT: Final = "elicitation/create"
_LEVELS: Final = {"info": "info", "warning": "warning", "error": "error"}


class Request(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The params of `ui`. Members that a kind does not know are passed on to a Pi core, and mean nothing elsewhere."""

    kind: Kind
    title: str = ""
    message: str = ""
    options: list[str] = []
    placeholder: str = ""
    prefill: str = ""
    level: Literal["info", "warning", "error"] = "info"


class _Elicited(msgspec.Struct):
    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None


class _Hosted(msgspec.Struct):
    output: dict[str, Any] = {}


_elicited = msgspec.json.Decoder(_Elicited)
_hosted = msgspec.json.Decoder(_Hosted)
_encode = msgspec.json.Encoder().encode


def no_ui(kind: str) -> Fault:
    """Return why a request of `ui` is refused."""
    return Fault(
        code="denied",
        message=f"no UI: there is nobody here who could be shown `{kind}`",
        reason="no_ui",
        retryable=False,
        details={"capability": "ui"},
    )


def read(params: dict[str, Any]) -> Request | Fault:
    """Return a request of `ui`, or what is wrong with it."""
    try:
        asked = msgspec.convert(params, Request, strict=True)
    except msgspec.ValidationError as error:
        return bad_host_call("bad_params", f"the params of `ui` cannot be read: {error}")
    if asked.kind == "select" and not asked.options:
        return bad_host_call("bad_params", "`options` of `select` must name something to choose from")
    return asked


def elicitation(asked: Request, who: str) -> bytes | None:
    """Return the params of `elicitation/create` for a request; None where its answer fits no flat form.

    `who` is the extension that asks, empty where the gateway does.
    """
    fields: dict[str, Any]
    match asked.kind:
        case "select":
            fields = {"value": {"type": "string", "enum": asked.options}}
        case "input":
            fields = {"value": {"type": "string"}}
            if asked.placeholder:
                fields["value"]["description"] = asked.placeholder
        case "editor":
            fields = {"value": {"type": "string"}}
            if asked.prefill:
                fields["value"]["default"] = asked.prefill
        case "confirm":
            fields = {}
        case _:
            return None
    text = "\n\n".join(each for each in (asked.title, asked.message) if each) or asked.kind
    schema: dict[str, Any] = {"type": "object", "properties": fields}
    if fields:
        schema["required"] = list(fields)
    return _encode({"message": f"{who}: {text}" if who else text, "requestedSchema": schema})


def of_elicitation(asked: Request, result: bytes) -> dict[str, Any] | Fault:
    """Return the output of `ui` for what an MCP core has answered."""
    try:
        found = _elicited.decode(result)
    except msgspec.DecodeError as error:
        return _bad_answer(str(error))
    if asked.kind == "confirm" and found.action != "cancel":
        return {"confirmed": found.action == "accept"}
    if found.action != "accept":
        return {"cancelled": True}
    value = (found.content or {}).get("value")
    if not isinstance(value, str):
        return _bad_answer("it has no text under `value`")
    return _checked(asked, {"value": value})


def forwarded(params: dict[str, Any], who: str) -> bytes:
    """Return the params of `pi/host_call` for a Pi core. `who` is the extension that asks."""
    told = {"capability": "ui", "method": "ui", "params": params}
    return _encode({**told, "context": {"extension_id": who}} if who else told)


def of_host_result(asked: Request, result: bytes) -> dict[str, Any] | Fault:
    """Return the output of `ui` for what a Pi core has answered."""
    try:
        output = _hosted.decode(result).output
    except msgspec.DecodeError as error:
        return _bad_answer(str(error))
    if asked.kind in TOLD or asked.kind == "custom":
        return output
    if output.get("cancelled") is True:
        return {"cancelled": True}
    name, of = ("confirmed", bool) if asked.kind == "confirm" else ("value", str)
    if not isinstance(output.get(name), of):
        return _bad_answer(f"it has no `{name}`")
    return _checked(asked, {name: output[name]})


def _checked(asked: Request, output: dict[str, Any]) -> dict[str, Any] | Fault:
    if asked.kind == "select" and output["value"] not in asked.options:
        return _bad_answer("it is none of the options")
    return output


def _bad_answer(why: str) -> Fault:
    return Fault(
        code="io", message=f"the answer cannot be read: {why}", reason="bad_answer", outcome="completed"
    )


class Surface:
    """Whoever can be shown something in one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._terminal = session.exchange.host.terminal(session)

    @property
    def name(self) -> str:
        """Return what decisions call it: `core` or `terminal`."""
        return "core" if self._terminal is None else "terminal"

    def can_be_asked(self, asked: Request, call: Call | None) -> bool:
        """Whether somebody could answer now."""
        if self._terminal is not None:
            return asked.kind != "custom"
        core = self._session.asks.whom(call)
        if core is None:
            return False
        if core.is_pi:
            return not core.is_closed
        params = elicitation(asked, "")
        return params is not None and self._session.asks.can_be_asked(ELICIT, params, call)

    def ask(
        self,
        about: PeerAsk,
        asked: Request,
        params: dict[str, Any],
        who: str,
        then: Callable[[dict[str, Any] | Fault], None],
    ) -> Question | None:
        """Put a question; `then` gets the output of `ui`, or why there is none, perhaps at once."""
        if self._terminal is not None:
            return self._show(self._terminal, about, asked, who, then)
        asks = self._session.asks
        core = asks.whom(about.call)
        if core is None or not self.can_be_asked(asked, about.call):
            then(no_ui(asked.kind))
            return None
        if core.is_pi:
            method, message, read_answer = words.HOST_CALL, forwarded(params, who), of_host_result
        else:
            method, message, read_answer = ELICIT, elicitation(asked, who) or b"", of_elicitation

        def answered(reply: Reply) -> None:
            if reply.fault is not None:
                then(no_ui(asked.kind) if reply.fault.reason == "no_ui" else reply.fault)
            elif reply.error:
                then(to_pi.fault_of(reply.error))
            else:
                then(read_answer(asked, reply.result))

        ask = OwnAsk(about, method, message, about.call, answered)
        asks.put(ask)
        return ask

    def _show(
        self, terminal: Terminal, about: PeerAsk, asked: Request, who: str,
        then: Callable[[dict[str, Any] | Fault], None],
    ) -> Shown | None:  # fmt: skip
        if not self.can_be_asked(asked, about.call):
            then(no_ui(asked.kind))
            return None
        shown = Shown(terminal, about, asked, who, then)
        if shown.seq < 0:
            then(unrecorded())
            return None
        terminal.show(shown)
        return shown

    def take_back(self, ask: Question, reason: str) -> None:
        """Nobody needs the answer any more."""
        if isinstance(ask, Shown):
            ask.take_back(reason)
        else:
            self._session.asks.take_back(ask, reason)

    def is_told(self, asked: Request, call: Call | None) -> bool:
        """Whether a request is a notice for the log of an MCP core."""
        core = self._session.asks.whom(call)
        return self._terminal is None and asked.kind == "notify" and core is not None and not core.is_pi

    def notify(self, about: PeerAsk, asked: Request, who: str) -> bool:
        """Put a notice into the log of an MCP core; whether anybody could be told."""
        told = False
        core = self._session.asks.whom(about.call)
        for one in self._session.cores if core is None else [core]:
            told = self._notice(about, one, asked, who) or told
        return told

    def _notice(self, about: PeerAsk, core: Core, asked: Request, who: str) -> bool:
        level = _LEVELS[asked.level]
        if core.era != "legacy" or core.is_closed:
            call = about.call
            if call is None or call.core is not core or not call.level:
                return False
        params = {"level": level, "logger": who, "data": asked.message or asked.title}
        method = "notifications/message"
        threshold = core.level if core.era == "legacy" else about.call.level if about.call else ""
        if not mcp.wants_level(threshold, level):
            return True
        message = jsonrpc.notification(method, _encode(params))
        seq = self._session.tap.record(
            "notification", ">core", message, peer=about.peer.name, parent=about.seq, method=method,
            flags=("synthetic",),
        )  # fmt: skip
        stream = about.call.core_id if about.call is not None and about.call.core is core else None
        core.notify(message, method, about=stream, seq=seq)
        return True


class UiCall:
    """One host call `ui` on its way. Implements `calls.ports.Served`."""

    def __init__(self, surface: Surface, hosted: Hosted) -> None:
        self._surface = surface
        self._ask: Question | None = None
        asked = read(hosted.params)
        if isinstance(asked, Fault):
            hosted.ended(Reply(fault=asked))
            return
        who = hosted.peer.name
        if surface.is_told(asked, hosted.call):
            told = surface.notify(hosted, asked, who)
            hosted.ended(Reply(result=b"{}") if told else Reply(fault=no_ui(asked.kind)))
            return

        def then(output: dict[str, Any] | Fault) -> None:
            if isinstance(output, Fault):
                hosted.ended(Reply(fault=output))
            else:
                hosted.ended(Reply(result=_encode(output)))

        self._ask = surface.ask(hosted, asked, hosted.params, who, then)

    def credit(self, count: int) -> None:
        """Nothing: the output is one whole."""

    def hold(self, *, full: bool) -> None:
        """Nothing, as well."""

    def cancel(self) -> None:
        """Take the question back."""
        ask, self._ask = self._ask, None
        if ask is not None:
            self._surface.take_back(ask, "nobody waits for the answer any more")
