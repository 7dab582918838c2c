"""Whether an answer of this run says what the recorded one did, as the profile of the recording compares results.

Owns what of two answers is compared, and where a change is said to be. Whose answers they are is the player's. Pure.
"""

from __future__ import annotations

from gateway.protocol import jsonrpc
from gateway.replay.recollection import said
from recordings.difference import Change, differences, under
from recordings.form import Form, form_of
from recordings.profile import Profile


def changes_of(profile: Profile, peer: str, method: str, recorded: bytes, live: bytes) -> tuple[Change, ...]:
    """How a live answer differs from a recorded one, both whole messages without secrets; nothing where it does not."""
    before, after = said(recorded), said(live)
    changes = under(_part(recorded), differences(before, after))
    if (
        changes
        and result_form(profile, peer, method, before).key == result_form(profile, peer, method, after).key
    ):
        return ()
    return changes


def result_form(profile: Profile, peer: str, method: str, result: bytes) -> Form:
    """The form of a result, by which it is compared."""
    return form_of(profile, method, None, result, peer=peer, part="result")


def _part(message: bytes) -> str:
    """The place of what an answer says, as a JSON Pointer."""
    try:
        return "/error" if jsonrpc.read(message).error else "/result"
    except jsonrpc.BadMessage:
        return ""
