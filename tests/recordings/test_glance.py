"""The glance before RE2 is loaded: it may say that there is no secret only where RE2 finds none."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import pytest
import re2
from hypothesis import example, given, settings
from hypothesis import strategies as st

from recordings.errors import WriteRefusedError
from recordings.glance import LONGEST, MOST_GLANCES, Glances, Look, may_tell
from recordings.linear import any_of, escaped
from recordings.names import STEMS
from recordings.patterns import SHAPES, prefilter
from recordings.redaction import GlancingRedactor, Redactor
from recordings.segment import line_filled
from recordings.store import Recorder, open_recording
from tests.no_descriptors import cannot_load
from tests.recordings.recording_kit import SECRET_KEY


class InPython(GlancingRedactor):
    """One without a glance in C."""

    _glances_in_c = False


TELLING = (*(shape.pattern for shape in SHAPES), *prefilter(STEMS))
looked = any_of(TELLING)
KNOWN = ["hunter2-hunter2", "p4ssw0rd+with/signs=="]

pieces = st.one_of(
    st.sampled_from(TELLING).flatmap(lambda pattern: st.from_regex(re.compile(pattern))),
    st.sampled_from([b"hunter2-hunter2", b"\x0b", b"\xff", b"\r\n", b"\\n", b"\0", b'":', b"="]),
    st.sampled_from([b"api", b"Key", b"private", b"CODE", b"pass", b"phrase", b"Token", b"\\u0041", b"@"]),
    st.binary(max_size=12),
)
texts = st.lists(pieces, max_size=4).map(b"".join)


@pytest.mark.parametrize("pattern", TELLING)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_pattern_matches_without_one_of_the_words(pattern: bytes, data: st.DataObject) -> None:
    assert may_tell(data.draw(st.from_regex(re.compile(pattern))))


@settings(max_examples=400, deadline=None)
@given(texts)
@example(b"PassPhrase=x")
@example(b"sg.")
@example(b'"\xc5\xbf\xe2\x84\xaa"')
def test_what_re2_finds_anything_in_is_never_passed_over(text: bytes) -> None:
    assert may_tell(text) or not looked(text)


@settings(max_examples=200, deadline=None)
@given(st.lists(texts, min_size=1, max_size=6), st.integers(0, MOST_GLANCES))
def test_a_redactor_that_glances_suspects_and_redacts_as_one_that_does_not(
    several: list[bytes], before: int
) -> None:
    glancing = InPython(SECRET_KEY, known=KNOWN)
    looking = Redactor(SECRET_KEY, known=KNOWN)
    for _ in range(before):
        assert not glancing.hints(b"nothing")
    for text in several:
        assert glancing.suspects(text) == looking.suspects(text)
        assert glancing.raw(text) == looking.raw(text)
    assert glancing.counts == looking.counts


class Counted:
    """A look that finds nothing, and how often it was made and asked."""

    def __init__(self) -> None:
        self.made = self.asked = 0

    def make(self) -> Look:
        self.made += 1
        return self._look

    def _look(self, data: bytes) -> None:
        del data
        self.asked += 1


def test_the_look_by_patterns_is_made_where_there_is_a_word_and_asked_from_then_on() -> None:
    counted = Counted()
    glances = Glances(counted.make, ())
    glances(b'{"text":"nothing"}')
    assert (counted.made, counted.asked) == (0, 0)
    glances(b"a token")
    glances(b'{"text":"nothing"}')

    assert (counted.made, counted.asked) == (1, 2)


def test_the_look_by_patterns_is_made_after_some_glances() -> None:
    counted = Counted()
    glances = Glances(counted.make, ())
    for _ in range(MOST_GLANCES):
        glances(b"x")
    assert counted.made == 0
    glances(b"x")

    assert (counted.made, counted.asked) == (1, 1)


def test_the_look_by_patterns_is_made_for_long_bytes() -> None:
    counted = Counted()
    Glances(counted.make, ())(b"x" * (LONGEST + 1))

    assert (counted.made, counted.asked) == (1, 1)


def test_what_is_learnt_after_the_first_glance_is_found_by_the_next() -> None:
    redactor = GlancingRedactor(SECRET_KEY)
    assert redactor.hints(b"a later one") is None
    redactor.know(["a later one"])

    assert redactor.hints(b"a later one")


def test_who_looks_closely_has_the_look_by_patterns_itself() -> None:
    redactor = InPython(SECRET_KEY)
    assert isinstance(redactor.hints, Glances)
    redactor.look_closely()

    assert not isinstance(redactor.hints, Glances)
    assert redactor.hints(b'"password":')
    redactor.know(["a later one"])
    assert not isinstance(redactor.hints, Glances)


@pytest.mark.parametrize(
    "rules", [{"keys": ["badge"]}, {"patterns": ["EMP-[A-Z]{3}"]}, {"known": ['quo"te\\back/slash']}]
)
def test_rules_that_a_word_does_not_tell_of_are_never_glanced_at(rules: dict[str, list[str]]) -> None:
    redactor = GlancingRedactor(SECRET_KEY, **rules)
    assert type(redactor.hints) is type(any_of(()))


@given(st.binary())
@example(bytes(range(256)))
def test_bytes_are_escaped_as_re2_escapes_them(literal: bytes) -> None:
    theirs: Any = re2
    assert escaped(literal) == theirs.escape(literal)


def test_bytes_without_a_word_are_looked_at_without_loading_re2() -> None:
    program = (
        "import sys; from recordings.redaction import GlancingRedactor\n"
        "redactor = GlancingRedactor(bytes(32), known=['hunter2-hunter2'])\n"
        'assert redactor.body(b\'{"text":"nothing"}\') == b\'{"text":"nothing"}\'\n'
        "assert 're2' not in sys.modules\n"
        'assert redactor.body(b\'{"text":"hunter2-hunter2"}\') != b\'{"text":"hunter2-hunter2"}\'\n'
        "assert 're2' in sys.modules\n"
    )

    subprocess.run([sys.executable, "-c", program], timeout=30, check=True)


@pytest.mark.parametrize("policy", ["refuse", "serve"])
def test_nothing_is_recorded_unseen_where_re2_cannot_be_loaded(
    policy: Literal["refuse", "serve"], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    recorder = Recorder(
        tmp_path / "r",
        redactor=GlancingRedactor(SECRET_KEY),
        on_write_error=policy,
        on_incomplete=lambda refusal: told.append(str(refusal)),
    )
    lines = [
        line_filled(
            b'{"seq":%d,"at":%d,"kind":"request","way":"core>","body":{"%b":"Zq9Zq9Zq9"}}', seq, seq, name
        )
        for seq, name in enumerate((b"plain", b"password", b"password"))
    ]
    recorder.append_encoded(lines[0], lines[0], 0, 0)
    cannot_load(monkeypatch, "re2")
    assert recorder.append_together([lines[1]], lines[1], 1, 1) is False
    if policy == "refuse":
        with pytest.raises(WriteRefusedError, match="what looks for secrets cannot be loaded"):
            recorder.append_encoded(lines[1], lines[1], 1, 1)
    else:
        recorder.append_encoded(lines[1], lines[1], 1, 1)
        assert told == ["the recording cannot be written: what looks for secrets cannot be loaded"]
    monkeypatch.undo()
    recorder.append_encoded(lines[2], lines[2], 2, 2)
    recorder.close()
    found = list(open_recording(tmp_path / "r"))
    assert [frame.kind for frame in found][:3] == ["request", "drop", "request"]
    assert b"Zq9" not in bytes(found[2].body)
