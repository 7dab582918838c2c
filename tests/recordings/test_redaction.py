"""What is taken out of a body, and what is not: a list of each, and properties that hold for all bodies."""

from __future__ import annotations

import base64
import json
import string
import sys
from typing import Any
from urllib.parse import quote, quote_plus

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from recordings.marks import unmarked
from recordings.names import is_secret, words_of
from recordings.redaction import Redactor
from tests.recordings.recording_kit import SECRET_KEY, frame

KNOWN = 'wq/8Zr"ö-71 kX'
PASSWORD = "correct horse 9"

SECRET_NAMES = [
    "token",
    "api_key",
    "apiKey",
    "API_KEY",
    "api-key",
    "x-api-key",
    "ApiKey",
    "apikey",
    "authorization",
    "Authorization",
    "proxy-authorization",
    "cookie",
    "Set-Cookie",
    "password",
    "db_password",
    "userPassword",
    "PASSWORD",
    "passwd",
    "passphrase",
    "secret",
    "client_secret",
    "clientSecret",
    "SECRET_KEY",
    "private_key",
    "privateKey",
    "credential",
    "credentials",
    "bearer",
    "accessToken",
    "refresh_token",
    "github.token",
    "authToken",
    "password2",
    "apiTokens",
    "secret_access_key",
    "token_secret",
    "session-token",
    "csrf_token",
    "signingKey",
    "encryption_key",
]

HARMLESS_NAMES = [
    "progressToken",
    "cancel_token",
    "maxTokens",
    "max_tokens",
    "nextPageToken",
    "page_token",
    "continuationToken",
    "nextCursor",
    "cursor",
    "tokenizer",
    "tokens",
    "token_count",
    "tokenCount",
    "totalTokens",
    "tokens_used",
    "secretary",
    "tokenType",
    "tokenModifiers",
    "token_type",
    "token_endpoint",
    "token_url",
    "authorization_endpoint",
    "authorizationServers",
    "password_policy",
    "passwordLength",
    "cookiePolicy",
    "keyboard",
    "author",
    "secretion",
    "compass",
    "bypass",
    "monkey",
    "key",
    "keys",
    "apiVersion",
    "privateField",
    "publicKey",
    "id",
    "uri",
    "eos_token",
    "bos_token",
    "passed",
]


def redactor() -> Redactor:
    return Redactor(SECRET_KEY, known=[KNOWN])


def redacted(value: Any) -> Any:
    return json.loads(redactor().body(json.dumps(value).encode()))


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_a_name_with_a_telling_word_hides_its_value(name: str) -> None:
    assert is_secret(name)
    assert redacted({"a": {name: PASSWORD, "b": 1.50}}) == {
        "a": {name: redacted({"password": PASSWORD})["password"], "b": 1.5}
    }


@pytest.mark.parametrize("name", HARMLESS_NAMES)
def test_a_name_that_only_looks_alike_hides_nothing(name: str) -> None:
    body = json.dumps({"a": [{name: "some value"}, {name: 7}], name: "x"}).encode()
    assert not is_secret(name)
    assert redactor().body(body) is body


def test_a_name_is_split_where_cases_and_signs_change() -> None:
    assert words_of("xAPIKey_2-of.Two") == ["x", "api", "key", "2", "of", "two"]


SHAPES = {
    "openai": "sk-proj-abcdEFGH1234ijklMNOP5678",
    "openai2": "sk-ant-api03-abcdEFGH1234ijklMNOP5678",
    "github": "ghp_abcdEFGH1234ijklMNOP5678qrstUVWX9012",
    "github2": "github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz",
    "gitlab": "glpat-abcdEFGH1234ijklMNOP",
    "aws": "AKIAIOSFODNN7EXAMPLE",
    "google": "AIzaSyA-abcdEFGH1234ijklMNOP5678qrstUVW",
    "slack": "xoxb-123456789012-abcdefghij",
    "stripe": "sk_live_abcdEFGH1234ijkl",
    "npm": "npm_abcdEFGH1234ijklMNOP5678qrstUVWX9012",
    "pypi": "pypi-AgEIcHlwaS5vcmcCJGFiY2RlZmdoaWprbG1ub3A",
    "huggingface": "hf_abcdEFGHijklMNOPqrstUVWX",
    "sendgrid": "SG.abcdEFGH1234ijklMNOP56.abcdEFGH1234ijklMNOP56",
    "digitalocean": "dop_v1_" + "0123456789abcdef" * 4,
    "shopify": "shpat_0123456789abcdef0123456789abcdef",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
    "pem": "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA1234\nabcd+/==\n-----END RSA PRIVATE KEY-----",
    "pem2": "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA",
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("around", ["{}", "see {} there", "\n{}\n", "({})", "a={},b", '"{}"', "x\t{}"])
def test_what_looks_like_a_secret_is_taken_out_wherever_it_stands(shape: str, around: str) -> None:
    secret = SHAPES[shape]
    for value in (around.format(secret), [around.format(secret)], json.dumps({"t": around.format(secret)})):
        text = json.dumps(redacted({"note": value, "n": 1}))
        assert secret.encode("unicode_escape").decode() not in text
        assert secret[-12:] not in text
        assert "[REDACTED:" in text


TEXTS = [
    ("Authorization: Bearer abcDEF123456.789", "abcDEF123456.789"),
    ("authorization: basic dXNlcjpwYXNzd29yZDE=", "dXNlcjpwYXNzd29yZDE="),
    ("Cookie: sid=abc; theme=dark", "sid=abc"),
    ("postgres://app:hunter2@db.local/app", "hunter2"),
    ("https://h/x?access_token=abcdef123&y=1", "abcdef123"),
    ("export DB_PASSWORD=hunter2222\nls", "hunter2222"),
    ("password: hunter2222", "hunter2222"),
    ("client_secret = 'hunt er2'", None),
    ('api_key = "hunter2222"', "hunter2222"),
    ("curl --token hunter2222 https://h", "hunter2222"),
    ("curl --api-key 'hunter2222'", "hunter2222"),
    ("{'password': 'hunter2'}", "hunter2"),
    ('log: {"password": "hunter2", "n": 1} end', "hunter2"),
    ('log: {\\"password\\": \\"hunter2\\"} end', "hunter2"),
    ('{"a":1}\n{"password":"hunter2"}\n', "hunter2"),
]


@pytest.mark.parametrize(("text", "secret"), TEXTS)
def test_secrets_in_running_text_are_taken_out(text: str, secret: str | None) -> None:
    if secret is not None:
        assert secret not in redactor().text(text)
        assert secret not in json.dumps(redacted({"content": [{"type": "text", "text": text}]}))


PROSE = [
    "const token = lexer.next()",
    "the token, which is a secret: nobody knows",
    "password: string;",
    "if (password === other) return",
    "class Token: pass",
    "def f(token=None, secret=None)",
    "foo(token=token, password=password)",
    "A bearer token is sent; basic information follows.",
    "task-550e8400-e29b-41d4-a716-446655440000",
    "sk-learn-is-a-library-for-machines",
    "d41d8cd98f00b204e9800998ecf8427e e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "https://example.com:8080/a?page=2&cursor=abc",
    "2026-01-02T03:04:05Z user@example.com /home/user/secrets.txt",
]


@pytest.mark.parametrize("text", PROSE)
def test_prose_and_code_about_secrets_stay(text: str) -> None:
    assert redactor().text(text) == text
    body = json.dumps({"text": text}).encode()
    assert redactor().body(body) == body


def test_types_are_kept_and_every_other_byte_too() -> None:
    body = (
        b'{ "n":1.0,"e":1E5, "token":"abcdef", "password" : 12345,"secret":true,"api_key":null,\t"\\u00e9":"\\/"'
        b',"credentials":{"user":"bob","pins":[1,"x",null],"on":false}}'
    )
    mark = rb"[REDACTED:named:"
    out = redactor().body(body)
    assert out.startswith(b'{ "n":1.0,"e":1E5, "token":"' + mark)
    assert b'"password" : 0,"secret":true,"api_key":null,\t"\\u00e9":"\\/","credentials":{"user":"[RED' in out
    told = json.loads(out)["credentials"]
    assert told["pins"][0] == 0
    assert told["pins"][2] is None
    assert told["on"] is False
    assert told["user"].startswith("[REDACTED:named:")


def test_the_schema_of_a_secret_stays_usable_and_its_examples_go() -> None:
    schema = {
        "type": "object",
        "properties": {
            "token": {"type": "string", "description": "The token.", "default": "hunter2"},
            "password": {"type": ["string", "null"], "minLength": 3},
            "secret": {"$ref": "#/$defs/secret"},
            "api_key": {"description": "Free of type."},
            "credential": {},
        },
        "required": ["token", "password"],
    }
    expected = json.loads(json.dumps(schema))
    expected["properties"]["token"]["default"] = redacted({"token": "hunter2"})["token"]
    assert redacted({"tools": [{"name": "login", "inputSchema": schema}]}) == {
        "tools": [{"name": "login", "inputSchema": expected}]
    }


@pytest.mark.parametrize(
    "value",
    [
        {"args": ["--token", "hunter2", "-v"]},
        {"headers": ["Authorization", "hunter2"]},
        {"headers": [["cookie", "hunter2"]]},
        {"env": [{"name": "DB_PASSWORD", "value": "hunter2"}]},
        {"env": [{"value": "hunter2", "name": "DB_PASSWORD"}]},
        {"env": [{"key": "X-Api-Key", "value": {"deep": ["hunter2"]}}]},
        {"text": json.dumps({"password": "hunter2"})},
        {"text": json.dumps({"text": json.dumps({"password": "hunter2"})})},
        {"text": json.dumps({"text": json.dumps({"text": json.dumps({"credentials": ["hunter2"]})})})},
    ],
)
def test_pairs_and_json_inside_strings_are_seen_through(value: Any) -> None:
    assert "hunter2" not in json.dumps(redacted(value))


def test_a_name_that_is_spelled_with_escapes_is_seen_through() -> None:
    for body in (b'{"p\\u0061ssword":"hunter2"}', b'{"text":"{\\"tok\\\\u0065n\\":\\"hunter2\\"}"}'):
        assert b"hunter2" not in redactor().body(body)


def forms(secret: str) -> list[str]:
    raw = secret.encode()
    found = [secret, json.dumps(secret)[1:-1], quote(secret), quote(secret, safe=""), quote_plus(secret)]
    for lead in (b"", b"u", b"u:", b"us:", b"usr:"):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            found.append(encode(lead + raw).decode())
            found.append(encode(lead + raw + b"tail").decode())
    return found


@pytest.mark.parametrize("form", forms(KNOWN))
def test_a_known_secret_is_found_in_every_form(form: str) -> None:
    for value in ([form], {form: 1}, {"a": f"x{form}y"}, json.dumps({"a": [form]})):
        out = redacted(value)
        text = json.dumps(out, ensure_ascii=False)
        assert "[REDACTED:known:" in text
        assert form not in text


def test_a_known_number_is_found_as_a_number_and_its_neighbours_stay() -> None:
    digits = Redactor(SECRET_KEY, known=["8675309"])
    assert digits.body(b'{"a":8675309,"b":[1,18675309.5,86753],"c":"8675309"}') == (
        b'{"a":0,"b":[1,0,86753],"c":"' + digits.mark("known", b"8675309") + b'"}'
    )


def test_secrets_that_are_too_short_are_not_looked_for_and_learnt_ones_are() -> None:
    each = Redactor(SECRET_KEY, known=["abc12"])
    assert each.body(b'["abc12","later-secret"]') == b'["abc12","later-secret"]'
    each.know(["later-secret"])
    assert b"later" not in each.body(b'["abc12","later-secret"]')


def test_equal_secrets_are_marked_alike_under_one_key_and_not_under_another() -> None:
    body = b'[{"token":"one"},{"password":"one"},{"token":"two"}]'
    first, second, third = (next(iter(each.values())) for each in json.loads(redactor().body(body)))
    assert first == second != third
    assert Redactor(b"other key").body(body) != redactor().body(body)
    assert unmarked(redactor().body(body)) == (
        b'[{"token":"[REDACTED]"},{"password":"[REDACTED]"},{"token":"[REDACTED]"}]'
    )


def test_what_was_found_is_counted_by_class() -> None:
    each = redactor()
    each.body(json.dumps({"token": "x", "a": [SHAPES["github"], KNOWN], "password": 5}).encode())
    assert each.counts == {"named": 1, "github": 1, "known": 1, "number": 1}


def test_a_frame_is_redacted_in_all_its_parts_and_flagged() -> None:
    key = SHAPES["github"]
    each = redactor().frame(
        frame(
            1,
            b'{"a":1}',
            "request",
            id=f"id-{KNOWN}",
            name=key,
            method=f"m {key}",
            lane=key,
            peer=key,
            x={"token": "t1"},
        )
    )
    text = msgspec.json.encode(each).decode()
    assert key not in text
    assert KNOWN not in text
    assert '"t1"' not in text
    assert each.flags == ("redacted",)
    untouched = frame(2, b'{"a":1}', x={"why": "no reason"})
    assert redactor().frame(untouched) is untouched


def test_a_raw_frame_is_redacted_before_it_is_hidden_in_base64() -> None:
    each = redactor().frame(frame(1, b"\xff password=hunter2222 \xfe", "raw"))
    assert bytes(each.body).startswith(b"\xff password=[REDACTED:named:")
    assert bytes(each.body).endswith(b"] \xfe")


def test_many_secrets_in_one_large_body_take_time_that_grows_with_it_alone() -> None:
    row = {"password": "hunter2", "text": "password=hunter2222 " * 3}
    body = json.dumps([row] * 4000).encode()
    assert b"hunter" not in redactor().body(body)


# Properties

texts = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20)
words = st.sampled_from(
    [
        KNOWN,
        "token",
        "password",
        "api_key",
        "name",
        "value",
        "--token",
        "Authorization",
        "[REDACTED]",
        "{",
        '{"a',
        "\\",
    ]
    + [*SHAPES.values()]
    + [text for text, _ in TEXTS]
    + PROSE
)
strings = texts | words | st.tuples(words, texts, words).map("".join)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | strings,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(strings, inner, max_size=4)
        | inner.map(json.dumps)
        | inner.map(lambda value: json.dumps(value, ensure_ascii=False))
    ),
    max_leaves=12,
)
bodies = st.tuples(values, st.sampled_from([None, 1]), st.booleans()).map(
    lambda each: json.dumps(each[0], indent=each[1], ensure_ascii=each[2]).encode()
)


def shape_of(value: Any) -> Any:
    """The types of a document, without its strings and numbers."""
    if isinstance(value, dict):
        return [shape_of(each) for each in value.values()]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return [shape_of(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, bool) or value is None:
        return value
    return "text" if isinstance(value, str) else "number"


def pairs(members: list[tuple[str, Any]]) -> Any:
    """Objects as lists: two names may become the same mark."""
    return [value for _, value in members]


@given(bodies)
@settings(max_examples=400, deadline=None)
@example(b'{"password":"\\ud83d\\ude00","b":[]}')
@example(b'"\\\\"')
def test_a_redacted_body_is_json_of_the_same_shape_without_the_known_secret(body: bytes) -> None:
    each = redactor()
    out = each.body(body)
    before, after = (json.loads(data, object_pairs_hook=pairs) for data in (body, out))
    assert shape_of(before) == shape_of(after)
    for form in (KNOWN.encode(), json.dumps(KNOWN)[1:-1].encode()):
        assert form not in out
    assert msgspec.json.decode(out, type=msgspec.Raw) is not None


def test_what_follows_a_secret_without_a_gap_is_looked_at_as_if_there_were_one() -> None:
    token = "dop_v1_" + "0123456789abcdef" * 4
    redacted = redactor().text(f"{token}Cookie: sid=abc; theme=dark")
    assert "sid=abc" not in redacted
    assert redacted.startswith("[REDACTED:")
    assert redactor().text(redacted) == redacted


@given(bodies)
@settings(max_examples=400, deadline=None)
def test_redacting_twice_is_redacting_once(body: bytes) -> None:
    each = redactor()
    once = each.body(body)
    assert each.body(once) == once


@given(strings)
@settings(max_examples=300, deadline=None)
def test_text_is_redacted_once_and_for_all(text: str) -> None:
    once = redactor().text(text)
    assert redactor().text(once) == once
    assert KNOWN not in once


@given(bodies)
@settings(max_examples=300, deadline=None)
def test_the_prefilter_misses_nothing_that_the_redactor_would_change(body: bytes) -> None:
    each = redactor()
    if not each.suspects(body):
        assert each.cutter.json(body, 0) == body


innocent = st.recursive(
    st.integers() | st.text(alphabet=string.ascii_letters + " .,é\n", max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(HARMLESS_NAMES), inner, max_size=3)
    ),
)


@given(innocent)
@settings(deadline=None)
def test_an_innocent_body_is_given_back_as_the_very_same_bytes(value: Any) -> None:
    body = json.dumps(value).encode()
    assert redactor().body(body) == body


@given(st.binary(max_size=200))
@settings(deadline=None)
def test_any_bytes_can_be_redacted(data: bytes) -> None:
    each = redactor()
    out = each.raw(data + KNOWN.encode() + data)
    assert KNOWN.encode() not in out
    assert each.raw(out) == out


def test_a_redactor_that_has_settled_loads_nothing_for_the_first_secret_that_it_finds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By then there may be no descriptor left to load a module with."""
    redactor = Redactor(SECRET_KEY)
    redactor.settle()
    monkeypatch.setitem(sys.modules, "recordings.cutting", None)

    assert "hunter2-and-more" not in redactor.text('{"password":"hunter2-and-more"}')
