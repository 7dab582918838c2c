"""Names that people should hear of."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from gateway.calls.odd_names import confusable, odd

NAME = st.text(st.one_of(st.characters(), st.sampled_from("aAａﬁ\u200b\x7f\x00 ~é")), min_size=1, max_size=8)  # noqa: RUF001


@given(NAME)
def test_a_name_is_odd_that_holds_a_character_of_control_or_format(name: str) -> None:
    assert bool(odd("p", name)) is any(unicodedata.category(char) in ("Cc", "Cf") for char in name)


@given(st.lists(NAME, max_size=6, unique=True))
def test_names_look_alike_that_are_one_in_normal_form(names: list[str]) -> None:
    alike: dict[str, int] = {}
    for name in names:
        normal = unicodedata.normalize("NFKC", name).casefold()
        alike[normal] = alike.get(normal, 0) + 1
    assert len(list(confusable(names))) == sum(count > 1 for count in alike.values())
