"""What is registered at a Pi core: all that is known of lists and offers, once it is known and where it is news."""

from __future__ import annotations

from typing import Any

import msgspec

from gateway.calls.pi.registration import Registration
from tests.gateway.calls.kit import Message


class Gateway:
    """Takes the requests, and has them answered in whatever order."""

    def __init__(self) -> None:
        self.registration = Registration("1.0")
        self.open: dict[str, int] = {}
        self._last = 0

    def request(self, method: str, _params: bytes) -> int:
        self._last += 1
        self.open[method] = self._last
        return self._last

    def answers(self, method: str, **result: Any) -> bool:
        encoded = msgspec.json.encode(result)
        return self.registration.answered(self.open.pop(method), encoded, self.request)

    def registers(self) -> Message | None:
        told = self.registration.news()
        return None if told is None else msgspec.json.decode(told)


def known(**offers: Any) -> Gateway:
    gateway = Gateway()
    gateway.registration.ask(gateway.request)
    assert not gateway.answers("tools/list", tools=[{"name": "add", "inputSchema": {"type": "object"}}])
    assert not gateway.answers("pi/offers", **offers)
    assert gateway.answers("prompts/list", prompts=[{"name": "plan", "arguments": [{"name": "what"}]}])
    return gateway


def test_everything_is_registered_once_it_is_known() -> None:
    gateway = known(event_hooks=["tool_call"], flags=[{"name": "fast", "type": "boolean"}])

    told = gateway.registers()
    assert told is not None
    assert [one["name"] for one in told["tools"]] == ["add"]
    assert told["event_hooks"] == gateway.registration.hooks == ["tool_call"]
    assert told["flags"] == [{"name": "fast", "type": "boolean"}]
    assert gateway.registration.arguments_of("plan") == ["what"]
    assert gateway.registration.arguments_of("unknown") == []


def test_what_was_registered_is_not_registered_again_until_it_changes() -> None:
    gateway = known()
    assert gateway.registers() is not None
    gateway.registration.ask_for_list("prompts", gateway.request)
    assert gateway.answers("prompts/list", prompts=[{"name": "plan", "arguments": [{"name": "what"}]}])
    assert gateway.registers() is None

    gateway.registration.ask_for_offers(gateway.request)
    assert gateway.answers("pi/offers", event_hooks=["context"])
    told = gateway.registers()
    assert told is not None
    assert told["event_hooks"] == ["context"]


def test_offers_that_cannot_be_read_are_none() -> None:
    gateway = known(event_hooks=["context"])
    gateway.registration.ask_for_offers(gateway.request)

    assert gateway.answers("pi/offers", event_hooks="all")
    assert gateway.registration.hooks == []
