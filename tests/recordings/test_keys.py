"""Keys of requests, and how often a lane has asked the same before."""

from __future__ import annotations

from recordings.form import form_of
from recordings.keys import Keys, with_keys
from recordings.profile import BUILT_IN
from recordings.views import inline_body
from tests.recordings.recording_kit import frame
from tests.recordings.tape_kit import Tape


def test_requests_of_one_form_share_a_key_and_are_counted_in_each_lane() -> None:
    tape = Tape()
    tape.answers(tape.asks(lane="a", id="1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"))
    tape.asks(lane="b", id="1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed")
    tape.asks(lane="a", id="2b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed")
    tape.asks(lane="a", id="words")
    found = list(with_keys(tape.frames, BUILT_IN, inline_body))
    first, answer, other_lane, again, other_words = found
    assert first.key == other_lane.key == again.key != other_words.key
    assert [each.nth for each in (first, other_lane, again, other_words)] == [1, 1, 2, 1]
    assert (answer.key, answer.nth) == (None, None)
    params = b'{"name":"read","arguments":{"id":"1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"}}'
    assert first.key == form_of(BUILT_IN, "tools/call", "read", params).key.hex()
    assert tape.frames[0].key is None


def test_a_request_whose_body_is_gone_or_none_has_no_key() -> None:
    keys = Keys(BUILT_IN)
    asked = frame(1, b'"words"', "request", method="tools/call")
    assert keys.keyed(asked, b"") is asked
    assert keys.keyed(asked, inline_body(asked)) is asked
