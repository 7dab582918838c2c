"""What a live request is called that no recorded one answers: by what its own lane still has, and had."""

from __future__ import annotations

from recordings.form import Form, form_of
from recordings.matching import Live, Match, Matcher, Miss, Recorded
from recordings.profile import BUILT_IN


def form(value: int) -> Form:
    params = b'{"name":"read","arguments":{"n":%d}}' % value
    return form_of(BUILT_IN, "tools/call", "read", params, peer="db")


def matcher(*requests: tuple[str, int]) -> Matcher:
    """Recorded calls, each of a lane and with a value."""
    return Matcher(
        [Recorded(n, n, "db", lane, "tools/call", "read", "fifo") for n, (lane, _) in enumerate(requests)],
        form=lambda seq: form(requests[seq][1]),
        outcome=lambda seq: b"%d" % seq,
    )


def live(lane: str, value: int) -> Live:
    return Live("db", lane, "tools/call", "read", form(value))


def test_what_another_lane_asks_is_extra_in_this_one_and_is_not_used_up() -> None:
    made = matcher(("a", 1))
    assert made.match(live("b", 1)) == Miss("extra")
    assert made.match(live("a", 1)) == Match(0)


def test_what_a_lane_has_asked_as_often_as_recorded_is_exhausted_whatever_others_have() -> None:
    made = matcher(("a", 1), ("b", 1))
    assert made.match(live("a", 1)) == Match(0)
    assert made.match(live("a", 1)) == Miss("exhausted", (0,))


def test_other_params_are_changed_ones_only_where_the_lane_itself_has_such_a_request_left() -> None:
    made = matcher(("a", 1), ("b", 2))
    assert made.match(live("b", 3)) == Miss("changed-params", (1,))
    assert made.match(live("c", 3)) == Miss("extra")
    assert made.match(live("", 3)) == Miss("changed-params", (0,))
