"""Extensions with hooks on a table: what they are asked is answered by the test, or by rules that they are given."""

from __future__ import annotations

from typing import Any

import msgspec

from gateway.calls.exchange import Exchange
from gateway.calls.pi import words
from gateway.config.extensions import ExtensionsConfig, HooksConfig
from gateway.config.model import Config
from gateway.config.peer import PeerConfig
from gateway.policy.model import PROFILES, Profile
from tests.gateway.calls.kit import Desk, Message, Service, Wire
from tests.gateway.calls.kit_world import Frame

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
ADD: Message = {"name": "add", "inputSchema": SCHEMA}
SILENT = object()
"""No answer at all."""


class Extension(Service):
    """A scripted extension, in MCP's words. `answers_to` holds what it answers to each event by itself."""

    def __init__(self, *hooks: str, tools: list[Message] | None = None, **answers: Any) -> None:
        super().__init__(tools=tools or [])
        self.has_tools = bool(tools)
        self.offers(*hooks)
        self.answers_to: dict[str, Any] = answers
        self.was_asked: list[Message] = []
        """Events that it was asked about."""
        self.was_told: list[Message] = []

    def offers(self, *hooks: str) -> None:
        payload = {"name": "x", "version": "1", "api_version": "1.0", "event_hooks": list(hooks)}
        self.payload = payload
        self.capabilities = {"experimental": {words.OFFER: payload}}
        if self.has_tools:
            self.capabilities["tools"] = {}

    def registers_again(self, *hooks: str) -> None:
        self.offers(*hooks)
        self.tells(words.REGISTERED, self.payload)

    def handle(self, wire: Wire, message: Message) -> bool:
        if message.get("method") == words.EVENT:
            self.was_told.append(message["params"])
            return True
        if message.get("method") != words.EVENT_HOOK:
            return super().handle(wire, message)
        event = message["params"]["event"]
        if message not in self.was_asked:
            self.was_asked.append(message)
        answer = self.answers_to.get(event)
        if answer is SILENT:
            return False
        result = {} if answer is None else {"result": answer}
        wire.receiver.message(msgspec.json.encode({"jsonrpc": "2.0", "id": message["id"], "result": result}))
        return True

    @property
    def asked(self) -> list[Message]:
        """The data of the events that it was asked about."""
        return [message["params"]["data"] for message in self.was_asked]


class HookDesk(Desk):
    """An exchange with one server, `calc`, others if wanted, and extensions."""

    def __init__(
        self,
        *,
        hooks: HooksConfig | None = None,
        profile: Profile = "standard",
        servers: dict[str, Service] | None = None,
        **extensions: Service,
    ) -> None:
        calc = Service(tools=[ADD, {"name": "sub", "inputSchema": {"type": "object"}}])
        self.calc = calc
        plain = {"calc": calc, **(servers or {})}
        super().__init__({**plain, **extensions})
        peers = {name: PeerConfig(command=["x"], dialect="pi") for name in extensions}
        self.config = Config(
            peers={name: PeerConfig(command=["x"]) for name in plain} | peers,
            extensions=ExtensionsConfig(hooks=hooks or HooksConfig()),
        )
        self.host.policy = PROFILES[profile]
        self.exchange = Exchange(self.config, self.host, version="0")
        self.exchange.on_notice = self.notices.append

    @property
    def decisions(self) -> list[Frame]:
        return self.frames("hook")
