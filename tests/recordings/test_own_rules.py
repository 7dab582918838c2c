"""The rules that a project adds: names, patterns of values, names that are harmless."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from recordings.export import Format, exported
from recordings.header import Header
from recordings.names import Names, key_fault
from recordings.patterns import pattern_fault
from recordings.redaction import Redactor
from recordings.store import Recorder, open_recording
from tests.recordings.recording_kit import SECRET_KEY, frame
from tests.recordings.test_redaction import bodies, pairs, shape_of, strings

KEYS = ["badge_number", "pin", "custom", "connectionUrl"]
PATTERNS = [r"\d{3}-\d{2}-\d{4}", r"EMP-[A-Z]{3}", r'told "([^"]+)"', r"\bcat\b|dog_?"]
ALLOWED = ["session_token", "Cookie"]


def redactor(
    keys: list[str] = KEYS, patterns: list[str] = PATTERNS, allow_keys: list[str] = ALLOWED
) -> Redactor:
    return cached(tuple(keys), tuple(patterns), tuple(allow_keys))


@cache
def cached(keys: tuple[str, ...], patterns: tuple[str, ...], allow_keys: tuple[str, ...]) -> Redactor:
    return Redactor(SECRET_KEY, keys=keys, patterns=patterns, allow_keys=allow_keys)


def redacted(value: Any, **rules: list[str]) -> Any:
    return json.loads(redactor(**rules).body(json.dumps(value).encode()))


@pytest.mark.parametrize(
    "name",
    [
        "badge_number",
        "badgeNumber",
        "BADGE-NUMBER",
        "badgenumber",
        "old_badge_number",
        "badge_number2",
        "pin",
        "PIN",
        "userPin",
        "connection_url",
        "custom",
        "badge number",
    ],
)
def test_an_own_name_hides_its_value_however_it_is_spelled_and_in_longer_names(name: str) -> None:
    value = {name: "77123", "other": {"name": name, "value": "77123"}, "text": f"{name}=771234"}

    out = redacted(value)
    assert out[name].startswith("[REDACTED:named:")
    assert out["other"]["value"].startswith("[REDACTED:named:")
    assert "771234" not in out["text"]


@pytest.mark.parametrize(
    "name", ["badge", "number", "badge_of_number", "spin", "pinned", "ping", "pin_count", "connection"]
)
def test_an_own_name_means_whole_words_as_the_built_in_ones_do(name: str) -> None:
    value = {name: "77123", "text": f"{name}=771234"}
    assert redacted(value) == value


def test_an_own_name_is_seen_as_an_option_of_a_command_line() -> None:
    out = redacted({"args": ["--pin", "9876", "--port", "80"], "shell": "run --pin 98765 --port 80"})
    assert out["args"][1].startswith("[REDACTED:named:")
    assert out["args"][3] == "80"
    assert "98765" not in out["shell"]


def test_a_name_of_a_harmless_list_can_be_made_secret() -> None:
    assert redacted({"maxTokens": 5}, keys=["max_tokens"]) == {"maxTokens": 0}
    assert redacted({"progressToken": "abc"}, keys=["progress"])["progressToken"].startswith("[REDACTED")


@pytest.mark.parametrize("name", ["session_token", "sessionToken", "SESSION-TOKEN", "cookie"])
def test_an_allowed_name_hides_nothing(name: str) -> None:
    value = {name: "none of your business", "args": [name, "open"], "env": {"name": name, "value": "v"}}
    assert redacted(value) == value


@pytest.mark.parametrize("name", ["token", "old_session_token", "session_token_secret", "set-cookie"])
def test_an_allowed_name_allows_that_whole_name_alone(name: str) -> None:
    assert redacted({name: "mine"})[name].startswith("[REDACTED:named:")


def test_what_an_allowed_name_holds_is_still_looked_through() -> None:
    assert "EMP-ABC" not in json.dumps(redacted({"session_token": "of EMP-ABC"}))
    assert redacted({"session_token": {"password": "x"}})["session_token"]["password"] != "x"


@pytest.mark.parametrize(
    "value",
    [
        "123-45-6789",
        ["a", "123-45-6789"],
        {"123-45-6789": 1},
        "text\nwith 123-45-6789 in it",
        'quote " 123-45-6789',
        json.dumps({"deep": json.dumps(["é 123-45-6789"])}),
        {"a": {"b": [[{"c": "x123-45-6789x"}]]}},
    ],
)
def test_an_own_pattern_is_found_in_every_text(value: Any) -> None:
    for ascii_only in (True, False):
        each = Redactor(SECRET_KEY, patterns=PATTERNS)
        out = each.body(json.dumps({"first": 1, "v": value}, ensure_ascii=ascii_only).encode())
        assert b"123-45-6789" not in out
        assert b"[REDACTED:custom:" in out
        assert each.counts == {"custom": 1}
        json.loads(out)


def test_a_pattern_sees_text_as_it_is_and_not_as_json_spells_it() -> None:
    assert redacted({"v": 'he told "abc def" to'})["v"].startswith('he told "[REDACTED:custom:')
    assert redacted({"v": "tab\tkey"}, patterns=["b\tk"])["v"].startswith("ta[REDACTED:custom:")
    assert redacted({"v": "a/b"}, patterns=["a/b"])["v"].startswith("[REDACTED:custom:")
    body = b'{"v":"\\u0031\\u0032\\u0033-45-6789"}'
    assert b"REDACTED:custom" in redactor().body(body)


def test_the_first_group_of_a_pattern_is_the_secret() -> None:
    assert redactor().text('told "tale"!').startswith('told "[REDACTED:custom:')
    assert redactor(patterns=[r"a(b)?c"]).text("xacx").startswith("x[REDACTED:custom:")
    assert redactor(patterns=[r"a(b*)c"]).text("ac") == "ac"


def test_a_greedy_pattern_does_not_skip_what_stands_beside_a_mark() -> None:
    each = Redactor(SECRET_KEY, known=["known-secret"], patterns=[r".*#\d+"])
    out = each.text("known-secret and #12 more")
    assert "#12" not in out
    assert "known-secret" not in out


def test_a_number_that_matches_becomes_zero() -> None:
    assert redacted({"n": 4111111111111111, "m": 12}, patterns=[r"\d{16}"]) == {"n": 0, "m": 12}


def test_what_matches_nothing_comes_back_as_the_very_same_bytes() -> None:
    body = json.dumps({"text": 'a "quoted"\nline', "n": [1, 2.5, None, True], "é": "ü"}).encode()
    assert redactor().body(body) is body


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("[a-", "missing ]"),
        ("(?=a)", "is not an RE2 pattern"),
        ("a*", "matches no text"),
        ("^a", "holds `^`"),
        ("a$", "holds `$`"),
        (r"\Aa", r"holds `\A`"),
        (r"(?m)a|^b", "holds `^`"),
        ("é", "ASCII"),
        (r"[\]a]$", "holds `$`"),
    ],
)
def test_a_pattern_that_cannot_be_used_is_told_apart(pattern: str, why: str) -> None:
    assert why in (pattern_fault(pattern) or "")


@pytest.mark.parametrize(
    "pattern", [*PATTERNS, "[^a]x", "[$^]b", r"\^a\$", r"\Qa^$\Eb", "[[:alpha:]^$]x", r"[]^]a", r"\\b"]
)
def test_a_pattern_that_can_be_used_is(pattern: str) -> None:
    assert pattern_fault(pattern) is None


@pytest.mark.parametrize("name", ["", "12", "_-", "straße", "params", "Result", "id"])
def test_a_name_that_cannot_be_used_is_told(name: str) -> None:
    assert key_fault(name)
    assert not any(key_fault(good) for good in (*KEYS, *ALLOWED))


own_texts = st.lists(
    st.sampled_from((
        "123-45-6789", "EMP-ABC", 'told "x y"', "cat", "dog", "dog_", "catcat", "_", "-", "\\", '"', "é", "\n",
        "badge_number", "pin", "session_token", "token", "custom", "=", ":", " ", "a1", "type", "default",
        "[REDACTED]", "[REDACTED:custom:0123abcd]", "sk-abcdefghijklmnopqrstuv9", "password", "connectionUrl",
    )),
    max_size=6,
).map("".join)  # fmt: skip
own_values = st.recursive(
    own_texts | st.integers() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(own_texts, inner, max_size=4) | inner.map(json.dumps)
    ),
    max_leaves=12,
)
own_bodies = st.tuples(own_values, st.sampled_from([None, 1]), st.booleans()).map(
    lambda each: json.dumps(each[0], indent=each[1], ensure_ascii=each[2]).encode()
)
EXTREMES = [[r"\d"], [r"."], [r"[a-z]+"], [r"[^a]+"], [r"\w\b"], ["type", r"(?i)redacted|custom"]]
own_patterns = st.just(PATTERNS) | st.sampled_from(EXTREMES)


@given(own_bodies | bodies, own_patterns)
@settings(max_examples=400, deadline=None)
@example(b'{"password":{"type":"string","default":"x"}}', ["type"])
@example(b'["1sk-abcdefghijklmnopqrstuv9"]', ["1"])
def test_redacting_twice_is_redacting_once_whatever_the_rules(body: bytes, patterns: list[str]) -> None:
    each = redactor(patterns=patterns)
    once = each.body(body)
    assert each.body(once) == once
    before, after = (json.loads(data, object_pairs_hook=pairs) for data in (body, once))
    assert shape_of(before) == shape_of(after)


@given(own_texts | strings, own_patterns)
@settings(max_examples=400, deadline=None)
@example("fooxxx", [r"\bfoo\b|x+"])
@example('{"a":"\x01"}', ["\x01"])
def test_text_is_redacted_once_and_for_all_whatever_the_rules(text: str, patterns: list[str]) -> None:
    each = redactor(patterns=patterns)
    once = each.text(text)
    assert each.text(once) == once


@given(own_bodies | bodies, own_patterns)
@settings(max_examples=300, deadline=None)
def test_the_prefilter_misses_nothing_that_own_rules_would_change(body: bytes, patterns: list[str]) -> None:
    each = redactor(patterns=patterns)
    if not each.suspects(body):
        assert each.cutter.json(body, 0) == body


@given(own_values)
@settings(max_examples=300, deadline=None)
def test_nothing_that_a_pattern_matches_is_left_in_any_string(value: Any) -> None:
    out = redacted(value, patterns=PATTERNS[:2])
    flat = json.dumps(out, ensure_ascii=False)
    assert "123-45-6789" not in flat
    assert "EMP-ABC" not in flat


@given(st.text(max_size=20))
@settings(deadline=None)
def test_names_of_our_own_are_found_by_their_stems(name: str) -> None:
    names = Names(KEYS, ALLOWED)
    assert not names.is_secret(name) or names._stem.search(name)  # pyright: ignore[reportPrivateUsage]


def test_canaries_of_own_rules_are_in_nothing_that_was_written(tmp_path: Any) -> None:
    secret, badge = "731-44-9021", "badge-canary-81"
    spots: list[dict[str, Any]] = [
        {"params": {"arguments": {"badge_number": badge, "ssn": secret}}},
        {"result": {"content": [{"type": "text", "text": json.dumps({"badgeNumber": badge, "s": secret})}]}},
        {"args": ["--badge-number", badge, secret]},
        {"text": f"line\n{secret}\nbadge_number={badge}"},
        {"filler": "x" * 33_000, "badge_number": badge, "s": secret},
    ]
    each = Redactor(SECRET_KEY, keys=KEYS, patterns=PATTERNS)
    with Recorder(tmp_path / "r", header=Header(session="s"), redactor=each) as recorder:
        for number, spot in enumerate(spots, 1):
            recorder.append(frame(number, json.dumps(spot).encode()))
        recorder.append(frame(6, f"stderr: {secret}, badge_number: {badge}".encode(), "raw"))
        recorder.append(frame(7, b"{}", x={"error": f"told {secret}", "badge_number": badge}))
        recorder.append(frame(8, b"{}", name=secret, lane=f"turn/{secret}"))
        recorder.barrier()
        live = b"".join(path.read_bytes() for path in (tmp_path / "r").rglob("*") if path.is_file())
        recorder.seal()
    recording = open_recording(tmp_path / "r")
    forms: tuple[Format, ...] = ("har", "trace", "json")
    told = b"\n".join(recording.body(frame) for frame in recording) + repr(list(recording)).encode()
    told += b"".join(b"".join(exported(recording, form)) for form in forms)
    for canary in (secret.encode(), badge.encode()):
        assert canary not in live
        assert canary not in told
    assert each.counts["custom"] > 7
    assert msgspec.json.decode(recording.body(next(iter(recording))))["params"]
