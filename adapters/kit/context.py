"""What a running call may say and ask: progress, log messages, a question to the person behind the caller.

Owns the two ways of asking. In the handshake era a question is a request of our own. In the stateless era it
ends this leg of the call (`InputRequired`), and the next leg runs the function from its start with the answer
at hand: tools ask before they act. What was answered so far travels in `requestState`, sealed and bound to
that very call.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from adapters.kit.app import Declined, Json, ToolError
from gateway.protocol import mcp

if TYPE_CHECKING:
    from transports.base import Id

Form = TypeVar("Form", bound=msgspec.Struct)


class Refused(Exception):  # noqa: N818 - an answer, not a failure of ours
    """A request that is answered with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Json | None = None) -> None:
        super().__init__(message)
        self.error: Json = {"code": code, "message": message} | ({"data": data} if data else {})


class InputRequired(Exception):  # noqa: N818 - an answer, not a failure of ours
    """A leg of a call that ends with a question."""

    def __init__(self, key: str, request: Json) -> None:
        super().__init__(key)
        self.key, self.request = key, request


class Speaker(Protocol):
    """The connection, as a call sees it."""

    def tell(self, method: str, params: Json) -> None:
        """Send a notification, from any thread."""
        ...

    async def ask(self, method: str, params: Json) -> Json:
        """Send a request of our own and wait for its result."""
        ...


class Context:
    """One running call. `progress` and `log` may be called from any thread."""

    def __init__(
        self, speaker: Speaker, caller: Json, *, token: Id | None, level: str, answers: Json | None
    ) -> None:
        self.cancelled = False
        """True once nobody waits for the result; code in worker threads looks at it between two steps."""
        self.answers = answers
        """What earlier legs were answered; None in the handshake era."""
        self._speaker, self._caller, self._token, self._level = speaker, caller, token, level
        self._asked = 0
        self._progress = -1.0

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Tell how far the call is. Dropped unless the caller asked for it and `done` has grown."""
        if self._token is None or done <= self._progress or self.cancelled:
            return
        self._progress = done
        params: Json = {"progressToken": self._token, "progress": done}
        params |= {"total": total} if total is not None else {}
        params |= {"message": message} if message else {}
        self._speaker.tell("notifications/progress", params)

    def log(self, level: str, data: Any) -> None:
        """Send a log message, if the caller wants to hear this level."""
        if self._level and mcp.wants_level(self._level, level):
            self._speaker.tell("notifications/message", {"level": level, "data": data})

    async def elicit(self, message: str, form: type[Form]) -> Form:
        """Ask the person behind the caller to fill in a flat form.

        Raises `Declined` where they do not, `ToolError` (`denied`) where the caller can ask nobody.
        """
        can = self._caller.get("elicitation")
        if can is None or (can and "form" not in can):
            raise ToolError(
                "denied", "a confirmation is needed, and this client cannot ask for one (elicitation)"
            )
        schema = msgspec.json.schema_components((form,), ref_template="{name}")[1][form.__name__]
        wanted = {name: schema[name] for name in ("type", "properties", "required") if name in schema}
        request: Json = {"mode": "form", "message": message, "requestedSchema": wanted}
        self._asked += 1
        key = f"ask{self._asked}"
        if self.answers is None:
            answer = await self._speaker.ask("elicitation/create", request)
        elif key in self.answers:
            answer = self.answers[key]
        else:
            raise InputRequired(key, {"method": "elicitation/create", "params": request})
        if answer.get("action") != "accept":
            raise Declined("denied", f"not done: the question was answered with {answer.get('action')!r}")
        try:
            return msgspec.convert(answer.get("content") or {}, form)
        except msgspec.ValidationError as fault:
            raise ToolError("invalid_request", f"the answer does not fit the form: {fault}") from None


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
