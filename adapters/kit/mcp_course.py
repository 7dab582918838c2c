"""One running call in MCP: its progress, its logs, and what it asks of its client.

Owns the two ways of asking. In the handshake era a question is a request of our own. In the stateless era it
ends this leg of the call (`InputRequired`), and the next leg runs the function from its start with the answer
at hand: tools ask before they act. What was answered so far travels in `requestState`, sealed and bound to
that very call. Also what the host calls of Pi come to here: questions, logs, sampling and roots, and no others.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import msgspec

from adapters.kit.errors import Declined, InputRequired, Json, Refused, ToolError
from gateway.protocol import mcp

if TYPE_CHECKING:
    from adapters.kit.host import OnChunk
    from transports.base import Id

_NOTES: Final = frozenset(("info", "warning", "error"))
_MEMBER: Final = "value"
"""The one member of the form that a question of `ui` becomes."""


class Speaker(Protocol):
    """The connection, as a call sees it."""

    def tell(self, method: str, params: Json) -> None:
        """Send a notification, from any thread."""
        ...

    async def ask(self, method: str, params: Json) -> Json:
        """Send a request of our own and wait for its result. Raises `ToolError`."""
        ...


class McpCourse:
    """One running call."""

    def __init__(
        self,
        speaker: Speaker,
        caller: Json,
        *,
        token: Id | None = None,
        level: str = "",
        answers: Json | None = None,
        lane: str = "",
    ) -> None:
        self.answers = answers
        """What earlier legs were answered; None in the handshake era."""
        self.lane = lane
        self.facts: Json = {}
        self._speaker, self._caller, self._token, self._level = speaker, caller, token, level
        self._asked = 0

    def progress(self, done: float, total: float | None, message: str) -> None:
        """Tell how far the call is, where the caller has asked for it."""
        if self._token is not None:
            params: Json = {"progressToken": self._token, "progress": done}
            params |= {"total": total} if total is not None else {}
            params |= {"message": message} if message else {}
            self._speaker.tell("notifications/progress", params)

    def log(self, level: str, data: Any) -> None:
        """Send a log message, if the caller wants to hear this level."""
        if self._level and mcp.wants_level(self._level, level):
            self._speaker.tell("notifications/message", {"level": level, "data": data})

    async def fill_in(self, message: str, form: Json) -> Json:
        """Ask the person behind the client to fill in a form."""
        can = self._caller.get("elicitation")
        if can is None or (can and "form" not in can):
            raise ToolError(
                "denied", "a confirmation is needed, and this client cannot ask for one (elicitation)"
            )
        request: Json = {"mode": "form", "message": message, "requestedSchema": form}
        answer = await self._ask("elicitation/create", request)
        if answer.get("action") != "accept":
            raise Declined("denied", f"not done: the question was answered with {answer.get('action')!r}")
        content: Any = answer.get("content") or {}
        return cast("Json", content)

    async def call(
        self, method: str, params: Json, timeout_s: float | None, on_chunk: OnChunk | None
    ) -> Json:
        """Do what MCP has for a host call."""
        del timeout_s, on_chunk  # a question waits for a person, and comes whole
        match method:
            case "ui":
                return await self._ui(params)
            case "log":
                self.log(str(params.get("level", "info")), params.get("message", params))
                return {}
            case "sampling":
                self._need("sampling", "has no model to lend (sampling)")
                return await self._ask("sampling/createMessage", params)
            case "roots":
                self._need("roots", "tells no directories (roots)")
                return await self._ask("roots/list", {})
            case _:
                raise ToolError(
                    "denied",
                    f"there is no host call `{method}` in MCP: start the extension with `--dialect pi`, behind a"
                    " host that serves it",
                    capability=method,
                )

    async def _ui(self, params: Json) -> Json:
        kind, title = params.get("kind"), str(params.get("title", ""))
        match kind:
            case "select":
                field: Json = {"type": "string", "enum": params.get("options", [])}
            case "confirm":
                return await self._confirm("\n\n".join(filter(None, (title, params.get("message")))))
            case "input":
                field = {"type": "string"} | _described(params.get("placeholder"))
            case "editor":
                field = {"type": "string"}
                field |= {"default": params["prefill"]} if params.get("prefill") else {}
            case "notify":
                level = str(params.get("level"))
                self.log(level if level in _NOTES else "info", params.get("message", ""))
                return {}
            case "status" | "widget" | "title":
                return {}
            case _:
                raise ToolError("invalid_request", f"`ui` has no kind {kind!r}")
        form: Json = {"type": "object", "properties": {_MEMBER: field}, "required": [_MEMBER]}
        try:
            value = (await self.fill_in(title, form)).get(_MEMBER)
        except Declined:
            return {"cancelled": True}
        return {"value": value}

    async def _confirm(self, message: str) -> Json:
        """Ask yes or no: an empty form, which is accepted or is not, as a gateway does it for extensions of Pi."""
        try:
            await self.fill_in(message, {"type": "object", "properties": {}})
        except Declined:
            return {"confirmed": False}
        return {"confirmed": True}

    def _need(self, capability: str, lacks: str) -> None:
        if self._caller.get(capability) is None:
            raise ToolError("denied", f"this client {lacks}", capability=capability)

    async def _ask(self, method: str, params: Json) -> Json:
        self._asked += 1
        key = f"ask{self._asked}"
        if self.answers is None:
            return await self._speaker.ask(method, params)
        if key in self.answers:
            return self.answers[key]
        raise InputRequired(key, {"method": method, "params": params})


def _described(text: object) -> Json:
    return {"description": text} if text else {}


class Seal:
    """Makes and opens `requestState`. The key is this process's own: a state does not outlive it."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def close(self, call: object, answers: Json) -> str:
        """The state that holds `answers`, good for `call` alone."""
        held = msgspec.json.encode(answers)
        return base64.urlsafe_b64encode(self._sign(call, held) + held).decode()

    def open(self, call: object, state: str) -> Json:
        """The answers in a state. Raises `Refused` for one that was changed or belongs to another call."""
        try:
            sealed = base64.urlsafe_b64decode(state)
        except ValueError:
            sealed = b""
        if not hmac.compare_digest(sealed[:32], self._sign(call, sealed[32:])):
            raise Refused(
                -32602, "requestState is missing, was changed, or belongs to another call or process"
            )
        return msgspec.json.decode(sealed[32:], type=dict[str, Any])

    def _sign(self, call: object, held: bytes) -> bytes:
        bound = hashlib.sha256(msgspec.json.encode(call, order="deterministic")).digest()
        return hmac.digest(self._key, bound + held, "sha256")
