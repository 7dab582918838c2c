"""What a peer may be called, held equal to the pattern that says it."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st

from gateway.config.checks import may_be_called

NAMES = st.text(st.sampled_from("aZ09_-") | st.characters(), max_size=70) | st.from_regex(
    r"[A-Za-z0-9_-]{60,70}"
)


@given(NAMES)
@example("")
@example("a\n")
@example("a b")
@example("x" * 64)
@example("x" * 65)
@example("é")
def test_a_peer_may_be_called_what_the_pattern_matches(name: str) -> None:
    assert may_be_called(name) == (re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) is not None)
