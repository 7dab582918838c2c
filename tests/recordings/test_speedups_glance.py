"""What the glance in C says holds no secret, all patterns suspect of none either, and a redactor leaves as it is."""

from __future__ import annotations

import re
from random import Random

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from recordings.glance import MOST_KNOWN, WORDS, glancing
from recordings.names import BUILT_IN, STEMS
from recordings.patterns import HARMLESS, SHAPES, prefilter
from recordings.redaction import GlancingRedactor, Redactor
from tests.recordings.recording_kit import SECRET_KEY

speedups = pytest.importorskip(
    "recordings._speedups", reason="the speedups are not compiled, or not asked for", exc_type=ImportError
)

KNOWN = ["hunter2-hunter2", "p4ssw0rd+with-signs=="]
TELLING = (*(shape.pattern for shape in SHAPES), *prefilter(BUILT_IN.stems))
BLOCK = 32


class Looking(Redactor):
    """One that looks by all patterns at once."""

    _glances_in_c = False


LOOKING = Looking(SECRET_KEY, known=KNOWN)
QUICK = Redactor(SECRET_KEY, known=KNOWN)
FORMS = LOOKING.sought.known
ASKED = [-1]


def asked(_: object) -> list[int]:
    """What is asked where the glance cannot tell."""
    return ASKED


ALONE = speedups.Glance(asked, FORMS)
PLAIN = speedups.Glance(asked, FORMS, plainly=True)
"""Without vector instructions."""


def same(data: bytes) -> None:
    """A no of the glance is one of all patterns, with and without vectors; and nothing else changes."""
    told = ALONE(data)
    assert told == PLAIN(data)
    if told is None:
        assert not LOOKING.suspects(data)
    assert QUICK.suspects(data) == LOOKING.suspects(data)


def same_redacted(data: bytes) -> None:
    """What is left of bytes is the same."""
    same(data)
    assert QUICK.raw(data) == LOOKING.raw(data)
    body = msgspec.json.encode({"text": data.decode("latin-1"), "progressToken": 1})
    assert QUICK.body(body) == LOOKING.body(body)


names = st.one_of(
    st.from_regex(re.compile(STEMS), fullmatch=True),
    st.sampled_from(
        [b"token", b"Authorization", b"cookie", b"passw", b"SECRET", b"credential", b"bearer", b"basic"]
    ),
    st.sampled_from([b"api", b"pass", b"private", b"ssh", b"key", b"word", b"phrase", b"CODE"]),
)
harmless = st.sampled_from(
    [
        form % name
        for name in HARMLESS
        for form in (b'"%b"', b'"%b":1', b'"%b\\"', b'\\"%b\\":1', b"%b", b"x%b")
    ]
)
glue = st.sampled_from(
    [
        b'"', b"\\", b'\\"', b":", b"=", b",", b"}", b" ", b"\t", b"\n", b"\x0b", b"'", b"-", b"--", b"_", b".", b"@",
        b"/", b"\0", b"\xff", b"\\n", b'":', b'" :', b'":"v"', b"://", b":p@", b"\\u00", b"\\u0041", b"abcdefg1",
    ]
)  # fmt: skip
runs = st.sampled_from(
    [
        (part * 70)[:count]
        for part in (b"\\", b" ", b"a", b"-", b"ab-", b"A1", b"a1", b"A1b2")
        for count in (7, 8, 16, 20, 32, 63, 64, 65, 66, 70)
    ]
)
shapes = st.one_of(
    st.sampled_from(TELLING).flatmap(lambda pattern: st.from_regex(re.compile(pattern))),
    st.sampled_from([word.upper() if word[:2] in (b"ak", b"as") else word for word in WORDS]),
    st.sampled_from(sorted(FORMS)),
)
texts = st.lists(st.one_of(names, glue, harmless, shapes, runs, glue), max_size=9).map(b"".join)
changes = st.sampled_from([b"", b"\x0b", b"\n", b" ", b"A", b"\xe9", b"-", b'"', b"\0", b"\\"])


@settings(max_examples=400, deadline=None)
@given(texts, changes, st.integers(0, 200))
@example(b'{"progressToken":7,"text":"AKIA01234567pageToken01234567"}', b"", 0)
@example(b'"progressToken":1,"x":"apipageToken key=x"', b"", 0)
@example(b'"progressToken":1,"a \\"progressToken\\": api\\/key":"Zq9Zq9Zq9"', b"", 0)
@example(b'"max_tokens\\u0041":1', b"", 0)
@example(b"http://a:\x0bb@c", b"", 0)
def test_a_no_is_a_no_of_all_patterns_for_what_matches_and_what_nearly_does(
    text: bytes, change: bytes, at: int
) -> None:
    same_redacted(text)
    at = min(at, len(text))
    same(text[:at] + change + text[at + 1 :])
    same(text.swapcase())
    same(text[at:])
    same(text[:at])


@pytest.mark.parametrize("pattern", TELLING)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_whatever_a_pattern_matches_is_asked_about(pattern: bytes, data: st.DataObject) -> None:
    found = data.draw(st.from_regex(re.compile(pattern)))
    if LOOKING.suspects(found):
        assert ALONE(found) == PLAIN(found) == ASKED
    same(found)


SEEDS = (
    b'"password":"x"', b"api-key=x", b"--token x", b'["--secret",', b"Bearer abcdefg1", b"cookie: a",
    b"hunter2-hunter2",
    b"-----BEGIN PRIVATE KEY-----", b" eyJabcdefgh1.eyJabcdefgh1", b" sk-" + b"A1b2" * 5, b" AKIA" + b"A1B2" * 4,
    b" SG." + b"a1b2" * 4 + b"." + b"a1b2" * 4, b"x://u:p@", b"\\u0070", b"\\u002D", b'"a":"{\\"token\\":1}"',
    *sorted(FORMS),
)  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("filler", [b"x", b" ", b"\0", b"\xff", b"t", b"\\n"])
def test_it_is_asked_wherever_the_blocks_of_vectors_begin_and_end(seed: bytes, filler: bytes) -> None:
    for before in range(3 * BLOCK):
        for after in (*range(4), BLOCK - 1, BLOCK, 2 * BLOCK + 1):
            data = (filler * 100)[:before] + b" " + seed + b" " + (filler * 100)[:after]
            same(data)
            assert ALONE(data) == ASKED


def test_bytes_behind_the_end_are_not_seen() -> None:
    for seed in SEEDS:
        for end in range(len(seed)):
            same(seed[:end])


def test_it_is_asked_anywhere_in_long_bodies_which_are_looked_at_without_the_lock() -> None:
    dice = Random(5)
    filler = (b"An ordinary text, of no particular keyboard or wordy tokenless phrase. " * 1000)[:70_000]
    assert ALONE(filler) is None
    for seed in SEEDS:
        at = dice.choice([0, len(filler) - len(seed) - 2, dice.randrange(60_000)])
        data = filler[:at] + b" " + seed + b" " + filler[at + len(seed) + 2 :]
        same(data)
        assert ALONE(data) == ASKED


@pytest.mark.parametrize(
    "part", [b"token ", b'token" ', b"\\", b"://", b"-key ", b"api key ", b"--", b'\\"token']
)
def test_no_text_makes_it_look_for_long(part: bytes) -> None:
    same(part * 20_000)


def test_a_harmless_name_is_nothing_where_it_is_all_of_a_string_only() -> None:
    for name in HARMLESS:
        assert ALONE(b'{"%b":1}' % name) is None
        assert ALONE(b'{"text":"{\\"%b\\":1}"}' % name) is None
        assert ALONE(b"%b" % name) == ASKED
        assert ALONE(b'{"x%b":1}' % name) == ASKED
        assert ALONE(b'{"%bx":1}' % name) == ASKED


def test_the_patterns_are_those_that_it_was_written_for() -> None:
    # Whoever changes one changes the C, and then what it is known by.
    assert glancing(TELLING, ()) is not None
    assert glancing((*TELLING, b"another"), ()) is None


def test_many_known_secrets_and_rules_of_a_project_are_looked_for_by_patterns() -> None:
    assert glancing(TELLING, {b"%06d" % number for number in range(MOST_KNOWN)}) is not None
    assert glancing(TELLING, {b"%06d" % number for number in range(MOST_KNOWN + 1)}) is None
    for rules in ({"keys": ["badge"]}, {"patterns": ["EMP-[A-Z]{3}"]}, {"known": ['quo"te\\back/slash']}):
        assert not isinstance(Redactor(SECRET_KEY, **rules).hints, speedups.Glance)


@pytest.mark.parametrize("known", [[b"abc"], ["text"], [b"long enough", b""], 7])
def test_what_cannot_be_looked_for_is_refused(known: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        speedups.Glance(asked, known)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.binary(min_size=4, max_size=300), max_size=5), st.binary(max_size=80), st.data())
def test_known_forms_are_found_where_they_are_and_nowhere_else(
    forms: list[bytes], around: bytes, data: st.DataObject
) -> None:
    only = speedups.Glance(asked, forms)
    whole = (
        around + (data.draw(st.sampled_from(forms)) if forms and data.draw(st.booleans()) else b"") + around
    )
    held = any(form in whole for form in forms)
    assert (only(whole) == ASKED) == (held or ALONE(whole) == ASKED)


def test_a_secret_that_is_learnt_later_is_found_at_once() -> None:
    for each in (Redactor(SECRET_KEY), GlancingRedactor(SECRET_KEY)):
        assert each.hints(b"a later-secret") is None
        each.know(["later-secret"])
        assert each.hints(b"a later-secret")
        each.settle()
        each.look_closely()
        assert each.hints(b"a later-secret")
        each.quicken()
        assert isinstance(each.hints, speedups.Glance)
        assert each.hints(b'"password":')


def test_whatever_is_no_bytes_is_left_to_what_is_asked() -> None:
    assert ALONE(bytearray(b"nothing")) == ASKED
    with pytest.raises(TypeError):
        ALONE()
