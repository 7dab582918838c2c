"""The words of our own with which MCP's side hears of what Pi has and MCP has not.

Owns the names alone. They are legal on connections of the dialect `pi`; to everybody else they are unknown methods.
"""

from __future__ import annotations

from typing import Final

HOST_CALL: Final = "pi/host_call"
"""A request of an extension to its host: the payload of `host_call`, and `META_CALL` in its `_meta`."""
CHUNK: Final = "pi/chunk"
"""A part of a host call's result: `{"call_id", "output", "index"}`."""
CREDIT: Final = "pi/credit"
"""How many more parts an extension takes: `{"call_id", "credits"}`."""
EVENT_HOOK: Final = "pi/event_hook"
"""What a hook is asked, by the gateway or a Pi core: `{"event", "data"}`; the result is `{"result"}`, the decision, or
`{}`."""
EVENT: Final = "pi/event"
"""What hooks are told, by the gateway or a Pi core: `{"event", "data"}`."""
OFFERS: Final = "pi/offers"
"""A Pi core's question for what the extensions of its session offer beside tools and commands."""
OFFERS_CHANGED: Final = "notifications/pi/offers/list_changed"
"""That is something else now."""
REGISTERED: Final = "pi/registered"
"""An extension has registered again: the payload of `register`."""
OFFER: Final = "io.tieline/pi"
"""Where the first `register` lies in the `initialize` result, in `capabilities.experimental`."""
META_CALL: Final = "io.tieline/call"
"""The id of the gateway's request in whose course an extension asks for something."""
_OURS: Final = ("pi/", "notifications/pi/")


def is_ours(method: str) -> bool:
    """Whether a method is one of these words, or might become one."""
    return method.startswith(_OURS)
