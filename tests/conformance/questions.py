"""How the everything server asks its client something in the middle of a call, in either protocol era.

Owns the one verb `Talk.ask`: up to 2025-11-25 it sends the questions as requests of the server, at once and
in parallel; since 2026-07-28 it ends the call with an input-required result and picks up the answers when
the client calls again. A tool is therefore written once. Owns no tool and no transport.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

if TYPE_CHECKING:
    from mcp.server.connection import Connection

Context: TypeAlias = ServerRequestContext[Any, Any]
Question: TypeAlias = types.CreateMessageRequest | types.ListRootsRequest | types.ElicitRequest
Answer: TypeAlias = Mapping[str, Any]

INPUT_KEY_META: Final = "io.tieline/inputKey"
"""The `_meta` key by which a request of the server says what its answer is to be called.

An input-required result names its questions, a server request has no name; a gateway that turns the second
into the first takes the name from here and makes one up where it is missing.
"""

LOG_LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

_ANSWER_TYPES: Final[dict[str, type[types.Result]]] = {
    "sampling/createMessage": types.CreateMessageResult,
    "elicitation/create": types.ElicitResult,
    "roots/list": types.ListRootsResult,
}


class InputRequiredError(Exception):
    """Unwinds a tool whose questions have not been answered yet; `result` is what the client is given."""

    def __init__(self, result: types.InputRequiredResult) -> None:
        super().__init__("input required")
        self.result = result


def elicit(
    message: str, properties: Mapping[str, Any], required: list[str] | None = None
) -> types.ElicitRequest:
    """A form with `properties`; all of them are required unless `required` says which."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties) if required is None else required,
    }
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def sample(text: str, max_tokens: int = 100) -> types.CreateMessageRequest:
    """One user message for the client's model."""
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=text))
    return types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(messages=[message], max_tokens=max_tokens)
    )


def roots() -> types.ListRootsRequest:
    """The client's roots."""
    return types.ListRootsRequest(params=types.RequestParams())


def is_modern(ctx: Context) -> bool:
    """Whether this call came in the stateless era."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def connection_of(ctx: Context) -> Connection:
    """The connection that this call came on: its state lives as long as the client stays."""
    return ctx.session._connection  # pyright: ignore[reportPrivateUsage]


@dataclass
class Talk:
    """One call, as a tool or prompt sees it: what was given, and the way back to the client."""

    ctx: Context
    arguments: Mapping[str, Any]
    _answers: dict[str, Answer] = field(default_factory=dict[str, Answer], init=False)

    def __post_init__(self) -> None:
        if is_modern(self.ctx):
            self._answers = _answers_in(self.ctx.params or {})

    @property
    def capabilities(self) -> types.ClientCapabilities:
        """What the client declared for this call (2026) or this session (before)."""
        return self.ctx.session.client_capabilities or types.ClientCapabilities()

    def require(self, **capabilities: bool) -> None:
        """Refuse the call unless the client declared each of these.

        Raises:
            MCPError: -32021, with the missing ones as a `ClientCapabilities` object.
        """
        missing: dict[str, dict[str, Any]] = {
            name: {} for name in capabilities if getattr(self.capabilities, name) is None
        }
        if missing:
            raise MCPError(
                types.MISSING_REQUIRED_CLIENT_CAPABILITY,
                f"this call needs the client capability {', '.join(missing)}",
                {"requiredCapabilities": missing},
            )

    async def ask(self, **questions: Question) -> dict[str, Answer]:
        """The answers to `questions` under their names.

        Raises:
            InputRequiredError: some are open, and the era lets us only answer with them (2026).
            MCPError: the client answered one with an error (before 2026).
        """
        if not is_modern(self.ctx):
            return await self._request(questions)
        if all(name in self._answers for name in questions):
            return {name: self._answers[name] for name in questions}
        open_now = {name: question for name, question in questions.items() if name not in self._answers}
        state = json.dumps({"answers": self._answers}, separators=(",", ":"))
        raise InputRequiredError(
            types.InputRequiredResult(input_requests=dict(open_now), request_state=state)
        )

    async def _request(self, questions: Mapping[str, Question]) -> dict[str, Answer]:
        answers: dict[str, Answer] = {}
        failures: list[MCPError] = []

        async def one(name: str, question: Question) -> None:
            try:
                result = await self.ctx.session.send_request(
                    _named(question, name),
                    _ANSWER_TYPES[question.method],
                    metadata=ServerMessageMetadata(related_request_id=self.ctx.request_id),
                )
            except MCPError as error:
                failures.append(error)
            else:
                answers[name] = result.model_dump(by_alias=True, mode="json", exclude_none=True)

        async with anyio.create_task_group() as group:
            for name, question in questions.items():
                group.start_soon(one, name, question)
        if failures:
            raise failures[0]
        return answers

    async def log(self, level: types.LoggingLevel, text: str) -> None:
        """Log to the client, where it wants to hear this level."""
        if is_modern(self.ctx):
            wanted = (self.ctx.meta or {}).get(types.LOG_LEVEL_META_KEY)
            if wanted not in LOG_LEVELS:
                return
        else:
            wanted = connection_of(self.ctx).state.get("log level", "debug")
        if LOG_LEVELS.index(level) < LOG_LEVELS.index(cast("str", wanted)):
            return
        await self.ctx.session.send_notification(
            types.LoggingMessageNotification(
                params=types.LoggingMessageNotificationParams(level=level, logger="everything", data=text)
            ),
            related_request_id=self.ctx.request_id,
        )


def _named(question: Question, name: str) -> Question:
    """The same question, saying what its answer is to be called."""
    copy = question.model_copy(deep=True)
    assert copy.params is not None
    copy.params.meta = cast("types.RequestParamsMeta", {INPUT_KEY_META: name})
    return copy


def _answers_in(params: Mapping[str, Any]) -> dict[str, Answer]:
    """What earlier legs brought (in the unsealed state) and what this leg brings."""
    state = params.get("requestState")
    earlier: dict[str, Answer] = json.loads(state)["answers"] if state else {}
    now: dict[str, Answer] = params.get("inputResponses") or {}
    return {**earlier, **now}
