"""Header values: every string comes back as it was, and nothing leaves ASCII."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transports import http_headers as names


@given(value=st.text(st.characters(exclude_categories=["Cs"])))
def test_every_value_comes_back_as_it_was(value: str) -> None:
    written = names.encode_value(value)
    assert written.isascii()
    assert written.isprintable()
    assert written == written.strip()
    assert names.decode_value(written) == value


@pytest.mark.parametrize("plain", ["echo", "my-tool", "a b", "", "=?base64?SGVsbG8=", "file:///a%20b"])
def test_what_a_header_can_hold_stays_as_it_is(plain: str) -> None:
    assert names.encode_value(plain) == plain


@pytest.mark.parametrize("value", ["Hello, 世界", " padded ", "\ttab", "a\nb", "=?base64?SGVsbG8=?="])
def test_what_a_header_cannot_hold_is_wrapped(value: str) -> None:
    assert names.encode_value(value).startswith("=?base64?")


@pytest.mark.parametrize(
    "damaged", ["=?base64?SGVsbG8?=", "=?base64?SGVs!!!bG8=?=", "=?base64?SGVsbG9=?=", "=?base64?/w==?="]
)
def test_a_damaged_wrapping_is_told(damaged: str) -> None:
    assert names.decode_value(damaged) is None


def test_white_space_around_a_value_is_no_part_of_it() -> None:
    assert names.decode_value("  echo\t") == "echo"


@pytest.mark.parametrize(
    ("version", "keeps"),
    [(None, True), ("2024-11-05", True), ("2025-11-25", True), ("2026-07-28", False), ("2027-01-01", False)],
)
def test_sessions_end_with_the_revision_of_july_2026(version: str | None, keeps: bool) -> None:
    assert names.keeps_sessions(version) is keeps


_PARTS = st.sampled_from(["=?base64?", "?=", "=", "?", "base64", "YQ==", "\n", " ", "\x7f", "é", "~", "a"])


@given(st.lists(_PARTS, max_size=6).map("".join))
def test_what_is_written_as_it_is_and_what_counts_as_wrapped_are_what_patterns_say(value: str) -> None:
    plain, wrapped = re.fullmatch(r"[\x20-\x7e]*", value), re.fullmatch(r"=\?base64\?(.*)\?=", value)
    stays = plain is not None and value == value.strip() and wrapped is None
    assert (names.encode_value(value) == value) is stays
    inner = re.fullmatch(r"=\?base64\?(.*)\?=", value.strip(" \t"))
    if inner is None:
        assert names.decode_value(value) == value.strip(" \t")
    else:
        assert names.decode_value(value) == ("a" if inner[1] == "YQ==" else None if inner[1] else "")
