"""The quick look for secrets: it may say that there is none only where RE2 finds none."""

from __future__ import annotations

import os
import random
import re
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from recordings import scanner, scanning
from recordings.appending import QUICK_FROM_BYTES
from recordings.names import STEMS
from recordings.patterns import SHAPES, prefilter
from recordings.redaction import Redactor as Glancing
from recordings.scanner import alike_in_both
from recordings.store import Recorder, open_recording
from tests.recordings.recording_kit import SECRET_KEY, frame

pytest.importorskip("hyperscan", reason="there are wheels of it for Linux on x86-64 alone")

KNOWN = [
    "hunter2-hunter2",
    'quo"te\\back/slash',
    "pässwörd-ü",
    "tab\tand\nline",
    "\U0001f511key",
    "a(*UTF8)b+[c]{2}",
]
KEYS = ["badge_number", "pin"]
PATTERNS = [r"EMP-[A-Z]{3}", r"\d{3}-\d{2}-\d{4}"]
TELLING = (*(shape.pattern for shape in SHAPES), *prefilter(STEMS))


class Redactor(Glancing):
    """One without a glance in C, before which Hyperscan is not needed."""

    _glances_in_c = False


def both(**rules: list[str]) -> tuple[Redactor, Redactor]:
    """A redactor as it is, and a quick one of the same rules."""
    slow, quick = Redactor(SECRET_KEY, **rules), Redactor(SECRET_KEY, **rules)
    quick.quicken()
    assert quick.hints != quick._every  # pyright: ignore[reportPrivateUsage]
    return slow, quick


PLAIN = both()
RULED = both(known=KNOWN, keys=KEYS, patterns=PATTERNS)
ONLY_KNOWN = both(known=[*KNOWN, "\0nul\0nul"])


def alike(data: bytes) -> None:
    for slow, quick in (PLAIN, RULED, ONLY_KNOWN):
        assert quick.hints(data) == (slow.hints(data) or None)
        assert quick.suspects(data) == slow.suspects(data)


pieces = st.one_of(
    st.sampled_from(TELLING).flatmap(lambda pattern: st.from_regex(re.compile(pattern))),
    st.sampled_from(KNOWN).map(lambda secret: secret.encode()),
    st.sampled_from(
        [b"EMP-ABC", b"123-45-6789", b'"pin":', b"\x0b", b"\xff", b"\r\n", b"\\n", b"\0", b"\xc2\xa0"]
    ),
    st.binary(max_size=12),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(pieces, max_size=4), st.data())
@example([b"Cookie:\x0bx"], None)
@example([b"bearer\x0babcdefgh1"], None)
@example([b"\xe9bearer abcdefgh1"], None)
@example([b"http://a:\x0bb@c"], None)
def test_it_tells_of_the_same_patterns_as_re2_for_what_matches_and_what_nearly_does(
    parts: list[bytes], data: st.DataObject | None
) -> None:
    whole = b"".join(parts)
    alike(whole)
    if whole and data is not None:
        at = data.draw(st.integers(0, len(whole) - 1))
        change = data.draw(st.sampled_from([b"", b"\x0b", b"\n", b" ", b"A", b"\xe9", b"-", b'"', b"\0"]))
        alike(whole[:at] + change + whole[at + 1 :])
        alike(whole.swapcase())
        alike(whole[at:])
        alike(whole[:at])


def test_it_finds_what_lies_anywhere_in_long_bodies_of_text_and_of_noise() -> None:
    dice = random.Random(7)
    seeds = [
        b'"api_token": "x1y2z3w4"',
        b"Bearer abcdefgh12345",
        b"AKIA" + b"A1" * 8,
        b"-----BEGIN PRIVATE KEY-----",
    ]
    seeds += [KNOWN[0].encode(), b"\\u0070assword", b"--password x1y2z3", b"postgres://u:hunter@h/d"]
    text = (Path(__file__).read_bytes() * 40)[:70_000].replace(b"token", b"taken")
    for filler in (b"x" * 70_000, dice.randbytes(70_000), text, b"\n" * 70_000):
        alike(filler)
        for seed in seeds:
            at = dice.choice([0, len(filler) - len(seed), dice.randrange(len(filler))])
            alike(filler[:at] + seed + filler[at + len(seed) :])
            alike(filler[:at] + b" " + seed + filler[at + len(seed) + 1 :])


def test_every_file_of_ours_is_judged_as_re2_judges_it() -> None:
    for path in sorted((Path(__file__).parents[2] / "tests" / "recordings").rglob("*.*"))[:150]:
        if path.is_file():
            alike(path.read_bytes()[:200_000])


def test_all_patterns_of_ours_are_taken_alike_by_both() -> None:
    for slow, _ in (PLAIN, RULED, ONLY_KNOWN):
        patterns = slow._scanned  # pyright: ignore[reportPrivateUsage]
        assert None not in [alike_in_both(pattern) for pattern in patterns]


@pytest.mark.parametrize(
    "pattern",
    [
        rb"\d", rb"[\d]", rb"[^\S]", rb"\pN", rb"a$", rb"\Aa", rb"\Qa\E", rb"[[:alpha:]]", rb"(?s:.)", rb"(?P<n>a)",
        rb"(?i)a", "(?i:é)".encode(), "(?i:a(?:é))".encode(), "(?i:[é])".encode(), rb"\xe9", rb"a{",
        b"a\0b", rb"(a", rb"a)", rb"\Ca",
    ],
)  # fmt: skip
def test_a_pattern_that_the_two_might_take_otherwise_is_not_given_to_hyperscan(pattern: bytes) -> None:
    assert alike_in_both(pattern) is None
    assert scanner.scanner([rb"a", pattern]) is None


def test_an_empty_pattern_which_matches_everything_is_not_left_out_of_the_look() -> None:
    assert scanner.scanner([rb"a", b""]) is None


def test_blanks_are_those_of_re2_in_and_out_of_classes() -> None:
    assert alike_in_both(rb"a\s[^\s\\s]") == rb"a[\t\n\f\r ][^\t\n\f\r \\s]"


def test_a_secret_that_is_learnt_later_is_found_at_once_and_by_who_is_made_quick_again() -> None:
    each = Redactor(SECRET_KEY)
    each.quicken()
    assert not each.hints(b"a later-secret")
    each.know(["later-secret"])
    assert each.hints(b"a later-secret")
    each.quicken()
    assert each.hints(b"a later-secret")
    assert not each.hints(b"a former secre")


def test_one_that_was_made_while_a_secret_was_learnt_does_not_overlook_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    each = Redactor(SECRET_KEY)
    made = scanner.scanner

    def meanwhile(patterns: tuple[bytes, ...], _: object) -> scanner.Scan | None:
        found = made(patterns)
        each.know(["later-secret"])
        return found

    monkeypatch.setattr(scanner, "scanner", meanwhile)
    each.quicken()
    assert each.hints(b"a later-secret")


def test_where_it_is_not_installed_all_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hyperscan", None)
    each = Redactor(SECRET_KEY)
    before = each.hints
    each.quicken()
    assert each.hints is before


def test_a_look_that_fails_leaves_the_answer_to_re2(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("in use by another thread")

    monkeypatch.setattr(scanner, "scanner", lambda *_: fails)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    each = Redactor(SECRET_KEY)
    each.quicken()
    assert each.hints(b'{"password":"x"}')
    assert not each.hints(b'{"text":"x"}')


def test_a_recording_that_grows_is_made_quick_beside_and_keeps_what_it_would_have_kept(
    tmp_path: Path,
) -> None:
    def recorded(name: str, each: Redactor) -> bytes:
        with Recorder(tmp_path / name, redactor=each, durability="os") as recorder:
            for seq in range(1, 41):
                long = b"x" * QUICK_FROM_BYTES if seq == 1 else b"y" * 500
                secret = b',"password":"s3cret-%d"' % seq if seq % 3 == 0 else b""
                recorder.append(frame(seq, b'{"id":%d,"text":"%b"%b}' % (seq, long, secret)))
                for thread in threading.enumerate():
                    if thread.name == "tieline-quicken":
                        thread.join()
        return (tmp_path / name / "frames.jsonl").read_bytes()

    quick, slow = Redactor(SECRET_KEY), Redactor(SECRET_KEY)
    slow._quickened = slow.generation  # pyright: ignore[reportPrivateUsage]
    before = quick.hints
    kept = recorded("quick", quick)
    assert quick.hints != before
    assert b"s3cret" not in kept
    assert recorded("slow", slow) == kept


def test_a_short_recording_is_not_made_quick(tmp_path: Path) -> None:
    each = Redactor(SECRET_KEY)
    before = each.hints
    with Recorder(tmp_path / "r", redactor=each, durability="os") as recorder:
        for seq in range(1, 100):
            recorder.append(frame(seq, b'{"text":"%b"}' % (b"y" * 500)))
    assert "tieline-quicken" not in [thread.name for thread in threading.enumerate()]
    assert each.hints is before


def test_what_another_process_has_compiled_looks_for_the_same() -> None:
    slow, quick = Redactor(SECRET_KEY, known=KNOWN), Redactor(SECRET_KEY, known=KNOWN)
    quick.quicken(scanning.compiled)
    assert quick.hints != quick._every  # pyright: ignore[reportPrivateUsage]
    for secret in KNOWN:
        data = b'{"text":%b}' % msgspec.json.encode(secret)
        assert quick.hints(data) == (slow.hints(data) or None)
    assert quick.hints(KNOWN[0].encode())
    assert not quick.hints(b'{"text":"nothing"}')


@pytest.mark.parametrize("written", [None, b"", b"no database", b"\0" * 200_000])
def test_what_another_process_did_not_compile_leaves_all_as_it_was(written: bytes | None) -> None:
    each = Redactor(SECRET_KEY)
    before = each.hints
    each.quicken(lambda _: written)
    assert each.hints is before


def test_a_process_that_cannot_compile_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert scanning.compiled([b"("]) is None
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert scanning.compiled([b"a"]) is None


def test_a_process_that_compiles_ends_with_whoever_asked_for_it() -> None:
    told, tell = os.pipe()
    hear, said = os.pipe()
    asks = (
        "import subprocess, sys\n"
        "program = [sys.executable, '-P', '-m', 'recordings.scanning']\n"
        f"one = subprocess.Popen(program, stdin={told}, stdout={said})\n"
        "print(one.pid, flush=True)\n"
        "one.wait()"
    )
    asking = subprocess.Popen([sys.executable, "-c", asks], pass_fds=(told, said), stdout=subprocess.PIPE)
    os.close(told)
    os.close(said)
    try:
        assert asking.stdout is not None
        pid = int(asking.stdout.readline())
        begun = min(os.getpriority(os.PRIO_PROCESS, 0) + scanning.NICE, 19)
        until = time.monotonic() + 20
        while os.getpriority(os.PRIO_PROCESS, pid) != begun and time.monotonic() < until:
            time.sleep(0.01)
        asking.kill()
        ended, _, _ = select.select([hear], [], [], 20)
        assert ended
        assert os.read(hear, 1) == b""
    finally:
        asking.kill()
        asking.communicate()
        os.close(tell)
        os.close(hear)


def test_a_recording_goes_on_where_no_thread_can_be_begun_to_make_it_quick(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with Recorder(tmp_path / "r", redactor=Redactor(SECRET_KEY), durability="os") as recorder:
        for seq in range(3):
            recorder.append(frame(seq, b'{"text":"%b%d"}' % (b"x" * QUICK_FROM_BYTES, seq)))
    assert open_recording(tmp_path / "r").frames == 3


def test_one_thread_looks_at_a_time_and_another_has_to_ask_re2(monkeypatch: pytest.MonkeyPatch) -> None:
    each = Redactor(SECRET_KEY)
    looking: list[bytes] = []

    def scan(data: bytes, _: Callable[..., bool]) -> None:
        looking.append(data)
        if data == b"first":
            assert each.hints(b'{"password":"x"}'), "and is told by RE2, since nobody is let in here"
            assert not each.hints(b"nothing")

    monkeypatch.setattr(scanner, "scanner", lambda *_: scan)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    each.quicken()
    assert not each.hints(b"first")
    assert not each.hints(b"second")
    assert looking == [b"first", b"second"]
