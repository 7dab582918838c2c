"""What the data of an event may say to the protocol itself: a decision, a cancellation, credits.

Owns the reading and the writing of those. Everything else in it is for whoever the event is for.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw, UnsetType

from gateway.calls.pi.errors import table
from gateway.protocol.errors import Fault
from gateway.protocol.pi_messages import EMPTY, EventHook, Natural

CANCEL: Final = "cancel"
CREDIT: Final = "credit"
SESSION_START: Final = "session_start"
SESSION_SHUTDOWN: Final = "session_shutdown"
SHORTCUT: Final = "shortcut"
"""A Pi core tells that a key was pressed, and the owner of the key hears of it: `{"key"}`."""
UPDATE: Final = "tool_call.update"
"""The event of a `log` that carries a part of a tool's output."""

NO_OPINION: Final = Raw(b"")


class Event(msgspec.Struct):
    """An event that a hook is asked about or told of: the params of `pi/event_hook` and `pi/event`."""

    event: str
    data: Raw = EMPTY


class Cancel(msgspec.Struct, gc=False):
    """Which calls nobody waits for any more: one, or all with one token."""

    call_id: str = ""
    cancel_token: str = ""


class Credit(msgspec.Struct, gc=False):
    """How many more chunks of a result may come."""

    call_id: str
    credits: Natural


decode_event: Final = msgspec.json.Decoder(Event)
_cancel = msgspec.json.Decoder(Cancel)
_credit = msgspec.json.Decoder(Credit)
_members = msgspec.json.Decoder(dict[str, Raw])
_encode = msgspec.json.Encoder().encode


def read_cancel(body: EventHook) -> Cancel | str:
    """Return what is cancelled, or what is wrong with the event."""
    try:
        read = Cancel() if isinstance(body.data, UnsetType) else _cancel.decode(body.data)
    except msgspec.ValidationError as fault:
        return f"`{CANCEL}` cannot be read: {fault}"
    return read if read.call_id or read.cancel_token else f"`{CANCEL}` needs a `call_id` or a `cancel_token`"


def read_credit(body: EventHook) -> Credit | str:
    """Return what is granted, or what is wrong with the event."""
    try:
        return _credit.decode(b"{}" if isinstance(body.data, UnsetType) else body.data)
    except msgspec.ValidationError as fault:
        return f"`{CREDIT}` cannot be read: {fault}"


def read_event(params: bytes) -> Event | Fault:
    """Return the event that a hook is asked about, or why it is none."""
    try:
        event = decode_event.decode(params)
        if bytes(memoryview(event.data)[:1]) != b"{":
            raise msgspec.ValidationError("`data` must be an object")
    except msgspec.DecodeError as bad:
        return Fault(code="invalid_request", message=f"the event cannot be read: {bad}", reason="bad_params")
    return event


def decision(body: EventHook) -> Raw:
    """Return the decision that an answer holds. No `result`, or null, is no opinion."""
    if isinstance(body.data, UnsetType):
        return NO_OPINION
    result = _members.decode(body.data).get("result", NO_OPINION)
    return NO_OPINION if bytes(memoryview(result)[:4]) == b"null" else result


def without_answer(data: Raw) -> Raw:
    """Return an event's data with the member that says that no answer is wanted."""
    members: dict[str, Any] = {**_members.decode(data), "reply": False}
    return Raw(_encode(members))


def cancel_data(call_id: str) -> Raw:
    """Return the data of a cancellation of one call."""
    return Raw(_encode({"call_id": call_id}))


def data_of(body: EventHook) -> bytes:
    """Return an event's data, an object."""
    return b"{}" if isinstance(body.data, UnsetType) else bytes(body.data)


def wants_answer(body: EventHook) -> bool:
    """Whether whoever sends an event waits for what becomes of it."""
    if isinstance(body.data, UnsetType):
        return True
    return table(msgspec.json.decode(body.data)).get("reply") is not False
