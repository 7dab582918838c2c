"""`${VAR}` and secret references: resolved at start, known to the redactor, shown to nobody."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config import ConfigError, parse
from gateway.config.model import Config
from gateway.config.references import looks_secret
from recordings.extras import extra_hint

CANARY = "canary-5f0c9e"


def read(text: str, directory: Path = Path("/etc"), **environ: str) -> Config:
    return parse(text, path=directory / "tieline.toml", environ=environ)


def mistake(text: str, directory: Path = Path("/etc"), **environ: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(text, directory, **environ)
    (only,) = caught.value.mistakes
    return f"{only.line}: `{only.key}` {only.message}"


def env(value: str) -> str:
    return f'[peers.p]\ncommand = ["x"]\n[peers.p.env]\nV = {value}'


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"${A}"', "alpha"),
        ('"x${A}y${B}z"', "xalphaybetaz"),
        ('"${NONE:-fallback}"', "fallback"),
        ('"${NONE:-}"', ""),
        ('"${EMPTY:-fallback}"', "fallback"),
        ('"${A:-fallback}"', "alpha"),
        ('"${env:A}"', "alpha"),
        ('"$${A}"', "${A}"),
        ('"$A %A% {A}"', "$A %A% {A}"),
        ('{ env = "A" }', "alpha"),
        ('{ env = "A", prefix = "Bearer " }', "Bearer alpha"),
    ],
)
def test_a_reference_is_replaced_by_its_value(text: str, value: str) -> None:
    config = read(env(text), A="alpha", B="beta", EMPTY="")

    assert config.peers["p"].env["V"] == value


def test_a_value_is_not_looked_through_for_further_references() -> None:
    assert read(env('"${A}"'), A="${B}", B="secret").peers["p"].env["V"] == "${B}"


def test_references_are_resolved_wherever_a_peer_is_described() -> None:
    config = read(
        """
        [peers.a]
        command = ["${BIN}/server", "--key=${KEY}"]
        cwd = "${BIN}"
        [peers.b]
        url = "https://${HOST}/mcp"
        headers = { Authorization = "Bearer ${KEY}" }
        oauth = { client_id = "${HOST}", client_secret = { env = "KEY" } }
        """,
        BIN="/opt/bin",
        KEY=CANARY,
        HOST="example.com",
    )

    assert config.peers["a"].command == ["/opt/bin/server", f"--key={CANARY}"]
    assert config.peers["a"].cwd == "/opt/bin"
    assert config.peers["b"].url == "https://example.com/mcp"
    assert config.peers["b"].headers == {"Authorization": f"Bearer {CANARY}"}
    assert config.peers["b"].oauth is not None
    assert config.peers["b"].oauth.client_id == "example.com"
    assert config.peers["b"].oauth.client_secret == CANARY
    assert CANARY in config.secret_values()


def test_places_begin_at_the_directory_of_the_file_also_in_lists(tmp_path: Path) -> None:
    text = '[extensions]\nroots = ["src", "/abs", "${ROOT}"]\npaths = ["one"]\ngrants = "g.toml"\n'
    extensions = read(text, tmp_path, ROOT="other").extensions
    assert extensions.roots == [str(tmp_path / "src"), "/abs", str(tmp_path / "other")]
    assert (extensions.paths, extensions.grants) == ([str(tmp_path / "one")], str(tmp_path / "g.toml"))


def test_a_secret_is_read_from_a_file_beside_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{CANARY}\n")

    config = read(env('{ file = "key" }'), tmp_path)

    assert config.peers["p"].env["V"] == CANARY
    assert config.secret_values() == {CANARY}


def test_without_its_extra_the_keyring_tells_how_to_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    assert mistake(env('{ keyring = "git/hub/me" }')).endswith(
        f"needs the extra `keyring`: {extra_hint('keyring')}"
    )


def test_a_secret_is_read_from_the_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {("git/hub", "me"): CANARY}

    def get_password(service: str, user: str) -> str | None:
        return kept.get((service, user))

    monkeypatch.setitem(sys.modules, "keyring", SimpleNamespace(get_password=get_password))

    assert read(env('{ keyring = "git/hub/me" }')).peers["p"].env["V"] == CANARY
    assert mistake(env('{ keyring = "git/hub/you" }')) == (
        "4: `peers.p.env.V` refers to the keyring entry `git/hub/you`, which does not exist"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"${TOKN}"', "refers to the environment variable `TOKN`, which is not set; did you mean `TOKEN`?"),
        ('"${ZZZZZZZZ}"', "refers to the environment variable `ZZZZZZZZ`, which is not set"),
        ('{ env = "ZZZZZZZZ" }', "refers to the environment variable `ZZZZZZZZ`, which is not set"),
        (
            '{ file = "/nowhere/key" }',
            "refers to the file `/nowhere/key`, which cannot be read: No such file or directory",
        ),
        ('{ keyring = "github" }', "must name a keyring entry as `service/name`, found `github`"),
        (
            '{ fil = "x" }',
            'must be text, or one of `{ env = "NAME" }`, `{ file = "path" }`, '
            '`{ keyring = "service/name" }`, found a table',
        ),
        (
            '"${input:api-key}"',
            "refers to `${input:api-key}`, which a gateway cannot ask for; use `${VARIABLE}`",
        ),
    ],
)
def test_a_reference_that_leads_nowhere_is_a_mistake(text: str, message: str) -> None:
    assert mistake(env(text), TOKEN=CANARY) == f"4: `peers.p.env.V` {message}"


def test_a_disabled_peer_needs_no_secrets() -> None:
    config = read(
        '[peers.p]\ndisabled = true\nurl = "http://x/"\nheaders = { K = { env = "NONE" }, L = "${NONE}" }'
    )

    assert config.active_peers == {}


@pytest.mark.parametrize(
    ("value", "secrets"),
    [
        ('"${API_TOKEN}"', {CANARY}),
        ('"${HARMLESS}"', set[str]()),
        ('{ env = "HARMLESS" }', {"just text"}),
        ('"postgres://user:hunter2@host/db"', {"hunter2"}),
        ('{ env = "SHORT" }', set[str]()),
    ],
)
def test_a_value_is_secret_by_how_it_is_referred_to(value: str, secrets: set[str]) -> None:
    config = read(env(value), API_TOKEN=CANARY, HARMLESS="just text", SHORT="1")

    assert config.secret_values() == secrets


def test_a_literal_under_a_secret_name_is_secret_with_and_without_its_scheme() -> None:
    config = read(
        f'[peers.p]\nurl = "http://x/"\nheaders = {{ Authorization = "Bearer {CANARY}", Accept = "text" }}'
    )

    assert config.secret_values() == {CANARY, f"Bearer {CANARY}"}


def test_a_secret_too_short_to_be_found_in_a_recording_is_told() -> None:
    config = read(env('{ env = "PIN" }'), PIN="123")

    assert config.notes == (
        "/etc/tieline.toml:4: `peers.p.env.V` is too short to be found and redacted in recordings",
    )


def test_no_secret_shows_when_a_configuration_is_printed() -> None:
    config = read(
        f"""
        [peers.a]
        command = ["x", "{CANARY}"]
        env = {{ TOKEN = "{CANARY}" }}
        [peers.b]
        url = "http://user:{CANARY}@x/"
        headers = {{ Authorization = "{CANARY}" }}
        oauth = {{ client_secret = "{CANARY}" }}
        [telemetry]
        otlp_headers = {{ key = "{CANARY}" }}
        """
    )

    assert CANARY in config.secret_values()
    assert CANARY not in "".join(map(repr, (config, *config.peers.values(), config.peers, config.telemetry)))
    assert CANARY not in repr(config.peers["b"].oauth)


@pytest.mark.parametrize("value", [f'{{ env = "{CANARY}" , fil = "x" }}', f'["{CANARY}"]'])
def test_no_value_shows_in_a_mistake_about_it(value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(f'[peers.p]\nurl = "http://x/"\nheaders = {{ Authorization = {value} }}')

    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["API_KEY", "x-api-key", "apiKey", "GITHUB_TOKEN", "Authorization", "dbPassword"]
)
def test_a_name_with_a_secret_word_looks_secret(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize(
    "name", ["PWD", "OLDPWD", "GOOGLE_APPLICATION_CREDENTIALS_FILE", "TOKEN_PATH", "PASSWORD_STORE_DIR"]
)
def test_a_place_is_no_secret_and_least_of_all_the_working_directory(name: str) -> None:
    assert not looks_secret(name)


def test_a_password_called_pwd_is_still_one() -> None:
    assert looks_secret("DB_PWD")
    assert looks_secret("pwd")


@pytest.mark.parametrize("name", ["PATH", "MONKEY", "KEYBOARD", "tokenizer", "AUTHOR", "max_tokens"])
def test_a_name_that_only_contains_such_a_word_does_not(name: str) -> None:
    assert not looks_secret(name)


@given(st.text(st.characters(exclude_characters="$\x00", exclude_categories=["Cs"])))
def test_text_without_a_dollar_sign_is_left_as_it_is(text: str) -> None:
    quoted = "".join(c if c.isalnum() and c.isascii() else f"\\U{ord(c):08x}" for c in text)

    assert read(env(f'"{quoted}"')).peers["p"].env["V"] == text
