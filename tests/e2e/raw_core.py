"""An agent core of a few lines, in either era: says what a test tells it, keeps all that comes, answers questions.

No SDK is between a cell of the matrix and the bytes. Owns the words of both eras as a client says them; how they
travel is `wires`'.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, Literal, TypeAlias, TypeVar

from tests.e2e.wires import PATIENCE_S, Message, Wire

Era: TypeAlias = Literal["legacy", "modern"]
Id: TypeAlias = int | str
T = TypeVar("T")

LEGACY: Final = "2025-11-25"
MODERN: Final = "2026-07-28"
CAPABILITIES: Final[Message] = {"roots": {"listChanged": True}, "elicitation": {"form": {}}, "sampling": {}}
INFO: Final[Message] = {"name": "raw-core", "version": "1.0"}
_PREFIX: Final = "io.modelcontextprotocol/"

WHOLE_S: Final = 50.0
"""No visit of a core is longer."""

SAMPLED: Final[Message] = {
    "role": "assistant",
    "content": {"type": "text", "text": "Paris"},
    "model": "no-model",
    "stopReason": "endTurn",
}
ELICITED: Final[Message] = {"action": "accept", "content": {"username": "ada", "name": "Ada", "color": "red"}}
ROOTS: Final[Message] = {"roots": [{"uri": "file:///home/ada", "name": "home"}]}
ANSWERS: Final[dict[str, Message]] = {
    "sampling/createMessage": SAMPLED,
    "elicitation/create": ELICITED,
    "roots/list": ROOTS,
}


class RawCore:
    """One connection of an agent core."""

    def __init__(self, wire: Wire, era: Era) -> None:
        self.wire = wire
        self.era: Era = era
        self.messages: list[Message] = []
        self.asked: list[Message] = []
        """What the server has asked: requests (legacy) or entries of input-required results (modern)."""
        self.facts: Message = {}
        """The result of `initialize` or `server/discover`."""
        self.answers = dict(ANSWERS)
        """What is answered to each question."""
        self.level = ""
        self.answers_per_id: dict[tuple[str, Id], int] = {}
        self._waiting: dict[tuple[str, Id], asyncio.Future[Message]] = {}
        self._ids = itertools.count(1)
        self._leaving = False
        self._changed = asyncio.Event()
        self._replies: set[asyncio.Task[None]] = set()

    @property
    def is_modern(self) -> bool:
        return self.era == "modern"

    async def start(self) -> None:
        """Connect and say hello."""
        await self.wire.open(self._take, self._gone)
        if self.is_modern:
            answer = await self.ask("server/discover")
            self.facts = answer["result"]
            return
        params = {"protocolVersion": LEGACY, "capabilities": CAPABILITIES, "clientInfo": INFO}
        answer = await self.ask("initialize", params)
        self.facts = answer["result"]
        await self.notify("notifications/initialized")
        await self.wire.ready()

    async def close(self) -> None:
        """Leave; everything that was still to be said is said, or has failed."""
        self._leaving = True
        await self.wire.close()
        for task in list(self._replies):
            await task

    def _take(self, message: Message) -> None:
        self.messages.append(message)
        if "method" not in message:
            key = _key(message.get("id"))
            self.answers_per_id[key] = self.answers_per_id.get(key, 0) + 1
            waiting = self._waiting.pop(key, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(message)
        elif "id" in message:
            self.asked.append(message)
            task = asyncio.ensure_future(
                self.wire.send(
                    {"jsonrpc": "2.0", "id": message["id"], "result": self.answers[message["method"]]}
                )
            )
            self._replies.add(task)
            task.add_done_callback(self._replies.discard)
        self._changed.set()

    def _gone(self, fault: BaseException | None) -> None:
        """Nothing comes any more: whoever waits is told, unless it was we who left."""
        for waiting in self._waiting.values():
            if self._leaving:
                waiting.cancel()
            elif not waiting.done():
                waiting.set_exception(fault or ConnectionError("the gateway has gone"))
        self._waiting.clear()

    def _params(self, params: Message | None) -> Message:
        params = dict(params or {})
        if self.is_modern:
            params["_meta"] = {
                **params.get("_meta", {}),
                f"{_PREFIX}protocolVersion": MODERN,
                f"{_PREFIX}clientInfo": INFO,
                f"{_PREFIX}clientCapabilities": CAPABILITIES,
                **({f"{_PREFIX}logLevel": self.level} if self.level else {}),
            }
        return params

    async def notify(self, method: str, params: Message | None = None) -> None:
        """Send a notification."""
        await self.wire.send(
            {"jsonrpc": "2.0", "method": method, **({"params": params} if params is not None else {})}
        )

    async def begin(
        self, method: str, params: Message | None = None, *, id_: Id | None = None
    ) -> tuple[Id, asyncio.Future[Message]]:
        """Send a request; give its id and what will hold its answer."""
        id_ = next(self._ids) if id_ is None else id_
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[_key(id_)] = future
        await self.wire.send({"jsonrpc": "2.0", "id": id_, "method": method, "params": self._params(params)})
        return id_, future

    async def ask(self, method: str, params: Message | None = None, *, id_: Id | None = None) -> Message:
        """Send a request and wait for its answer, result or error."""
        _, future = await self.begin(method, params, id_=id_)
        return await asyncio.wait_for(future, PATIENCE_S)

    async def result(self, method: str, params: Message | None = None) -> Message:
        """Send a request that must succeed; give its result."""
        answer = await self.ask(method, params)
        assert "result" in answer, answer
        return answer["result"]

    async def call(self, tool: str, given: Message | None = None, *, meta: Message | None = None) -> Message:
        """Call a tool and give its result; what it asks on the way is answered as the era has it."""
        params: Message = {"name": tool, "arguments": given or {}, **({"_meta": meta} if meta else {})}
        result = await self.result("tools/call", params)
        while self.is_modern and result.get("resultType") == "input_required":
            questions: dict[str, Message] = result["inputRequests"]
            self.asked += questions.values()
            more = {"inputResponses": {key: self.answers[ask["method"]] for key, ask in questions.items()}}
            if "requestState" in result:
                more["requestState"] = result["requestState"]
            result = await self.result("tools/call", params | more)
        if self.is_modern:
            assert result["resultType"] == "complete", result
        else:
            assert result.get("resultType", "complete") == "complete", result
        return result

    async def listen(self, **wanted: Any) -> Id:
        """Subscribe as the stateless era does; give the id once it is acknowledged."""
        id_, _ = await self.begin("subscriptions/listen", {"notifications": wanted})
        method = "notifications/subscriptions/acknowledged"
        await self.until(lambda: [n for n in self.notes(method) if subscription_of(n) == id_])
        return id_

    async def cancel(self, id_: Id) -> None:
        """Take a request back as the era and the wire do."""
        if not await self.wire.cancel(id_):
            await self.notify("notifications/cancelled", {"requestId": id_, "reason": "enough"})

    def notes(self, method: str) -> list[Message]:
        """The params of the notifications of one method that have come."""
        return [m.get("params", {}) for m in self.messages if m.get("method") == method and "id" not in m]

    async def until(self, condition: Callable[[], T]) -> T:
        """Wait until `condition` holds; it is looked at after every message."""
        async with asyncio.timeout(PATIENCE_S):
            while not (value := condition()):
                self._changed.clear()
                await self._changed.wait()
            return value


def _key(id_: Any) -> tuple[str, Any]:
    """Ids of different types are different ids."""
    return type(id_).__name__, id_


def subscription_of(params: Message) -> Any:
    """The subscription that a notification says it belongs to."""
    meta: Message = params.get("_meta", {})
    return meta.get(f"{_PREFIX}subscriptionId")


@asynccontextmanager
async def connected(wire: Wire, era: Era) -> AsyncGenerator[RawCore]:
    """A core that has said hello, and leaves at the end."""
    core = RawCore(wire, era)
    async with asyncio.timeout(WHOLE_S):
        try:
            await core.start()
            yield core
        finally:
            await core.close()
