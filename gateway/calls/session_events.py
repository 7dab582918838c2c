"""What extensions are asked before the session is changed by another one, and told afterwards, in Pi's words.

Owns the events `session_before_*`, their data and what an answer changes, and those that follow. Who is asked is known
to `hooked`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gateway.sessions import ops
from gateway.sessions.conversation import Conversation, Done

_encode = msgspec.json.Encoder().encode


class _Compaction(msgspec.Struct):
    summary: str
    first: str | None = msgspec.field(name="firstKeptEntryId", default=None)
    tokens: int | None = msgspec.field(name="tokensBefore", default=None)


class _Summary(msgspec.Struct):
    summary: str


class _Answer(msgspec.Struct):
    compaction: _Compaction | None = None
    summary: _Summary | None = None
    label: str | None = None


def before(op: ops.Op, leaf: str | None) -> tuple[str, bytes] | None:
    """Return the event that is asked about before an operation, and its data; None where nobody is asked."""
    if isinstance(op, ops.New):
        return "session_before_switch", _encode({"reason": "new"})
    if isinstance(op, ops.Switch):
        return "session_before_switch", _encode({"reason": "resume", "targetSessionFile": op.target})
    if isinstance(op, ops.Fork):
        return "session_before_fork", _encode({"entryId": op.entry_id, "position": op.position})
    if isinstance(op, ops.Compact):
        preparation = {"firstKeptEntryId": op.first_kept_entry_id, "tokensBefore": op.tokens_before}
        data = {"preparation": preparation, "summary": op.summary, "reason": "manual"}
        return "session_before_compact", _encode(data)
    if isinstance(op, ops.Navigate):
        wants = op.summary is not None
        preparation = {
            "targetId": op.target_id,
            "oldLeafId": leaf,
            "userWantsSummary": wants,
            "label": op.label,
        }
        return "session_before_tree", _encode({"preparation": preparation})
    return None


def instead(op: ops.Op, answer: bytes) -> ops.Op:
    """Return an operation with what hooks have put in the place of a summary; what cannot be read changes nothing."""
    try:
        said = msgspec.json.decode(answer, type=_Answer)
    except msgspec.DecodeError:
        return op
    if isinstance(op, ops.Compact) and said.compaction is not None:
        made = said.compaction
        return msgspec.structs.replace(
            op,
            summary=made.summary,
            first_kept_entry_id=made.first or op.first_kept_entry_id,
            tokens_before=op.tokens_before if made.tokens is None else made.tokens,
        )
    if isinstance(op, ops.Navigate):
        if said.summary is not None and op.summary is not None:
            op = msgspec.structs.replace(op, summary=said.summary.summary)
        if said.label is not None:
            op = msgspec.structs.replace(op, label=said.label)
    return op


def after(op: ops.Op, done: Done, leaf: str | None, conversation: Conversation) -> tuple[str, bytes] | None:
    """Return the event that is told of once an operation is done, and its data; `leaf` is where it began."""
    data: dict[str, Any]
    if done.why is not None:
        data = {"reason": done.why, "session": conversation.info, "sessionFile": conversation.file}
        return "session_fork" if done.why == "fork" else "session_switch", _encode(data)
    if isinstance(op, ops.Compact):
        data = {"compactionEntry": done.wrote[0].fields, "fromExtension": True, "reason": "manual"}
        return "session_compact", _encode(data)
    if isinstance(op, ops.Navigate):
        data = {"newLeafId": conversation.tree.leaf, "oldLeafId": leaf, "fromExtension": True}
        if op.summary is not None and done.wrote:
            data["summaryEntry"] = done.wrote[0].fields
        return "session_tree", _encode(data)
    return None
