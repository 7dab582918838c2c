"""The points at which extensions are told or asked something: event by event, as data.

Owns which events there are, how the answers of several extensions become one, and what a fault means at each point.
What an answer looks like is in `answers`. Source: the hook table of the protocol's contract; the further events are
those that pi itself has, which are told so that an extension written for it need not be changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final, Literal, TypeAlias

import msgspec

Fold: TypeAlias = Literal[
    "told", "input", "inject", "replace", "judge", "patch", "cancel", "route", "join", "first"
]
"""How the answers become one.

`told`: nobody is asked. `input`: each changes what the next one is given, `handled` ends it. `inject`: all messages are
kept, the system prompt is changed in turn. `replace`: each replaces what the next one is given. `judge`: as `input`,
and the first block ends it. `patch`: each changes some members. `cancel`: the first cancel ends it; of what else is
given, the last one counts. `route`: advice is listed, the first decision ends it. `join`: paths are joined. `first`:
the first answer ends it.
"""
OnFault: TypeAlias = Literal["open", "closed"]
"""Whether a hook that fails is passed over, or stops what it was asked about."""
Sender: TypeAlias = Literal["gateway", "core"]
"""`gateway`: it happens for every core, since the gateway itself sees the moment. `core`: only a Pi core sends it."""


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One event."""

    event: str
    fold: Fold = "told"
    on_fault: OnFault = "open"
    sender: Sender = "core"

    @property
    def is_asked(self) -> bool:
        """Whether an answer is waited for."""
        return self.fold != "told"


def _told(sender: Sender, *events: str) -> list[Point]:
    return [Point(event=event, sender=sender) for event in events]


_CONTRACT: Final = (
    *_told("gateway", "session_start", "session_shutdown"),
    *_told("core", "agent_start", "agent_end", "turn_start", "turn_end"),
    *_told("core", "message_start", "message_update", "message_end"),
    *_told("core", "tool_execution_start", "tool_execution_update", "tool_execution_end", "model_select"),
    Point(event="input", fold="input"),
    Point(event="before_agent_start", fold="inject"),
    Point(event="context", fold="replace"),
    Point(event="tool_call", fold="judge", on_fault="closed", sender="gateway"),
    Point(event="tool_result", fold="patch", sender="gateway"),
    Point(event="session_before_switch", fold="cancel"),
    Point(event="session_before_fork", fold="cancel"),
    Point(event="session_before_compact", fold="cancel"),
    Point(event="session_before_tree", fold="cancel"),
    *_told("core", "session_switch", "session_fork", "session_compact", "session_tree"),
    Point(event="model_route", fold="route"),
    Point(event="resources_discover", fold="join"),
    Point(event="user_bash", fold="first"),
)
_OF_PI: Final = _told(
    "core", "agent_before_settle", "agent_settled", "after_provider_response", "before_provider_headers",
    "before_provider_request", "cache_warming_decision", "context_with_system", "mcp_servers_change", "project_trust",
    "provider_stream_event", "session_compact_failed", "session_info_changed", "thinking_level_select", "ui_prompt_end",
    "ui_prompt_start",
)  # fmt: skip
"""Events of pi that the contract does not have: whatever a hook answers there, nobody waits for it."""

POINTS: Final[dict[str, Point]] = {point.event: point for point in (*_CONTRACT, *_OF_PI)}
CONTRACT: Final = tuple(point.event for point in _CONTRACT)
"""The events of the contract's table, in its order."""


def unknown(events: Iterable[str]) -> list[str]:
    """Return a sentence about each event that is none: a hook for it would never be called.

    Raises nothing: an extension that is newer than this gateway may know more events than it.
    """
    return [_about(event) for event in events if event not in POINTS]


def _about(event: str) -> str:
    near = get_close_matches(event, list(POINTS), n=1, cutoff=0.7)
    known = f"did you mean `{near[0]}`?" if near else f"known are {', '.join(sorted(POINTS))}"
    return f"there is no event {event[:64]!r}, so a hook for it is never called; {known}"
