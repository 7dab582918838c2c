"""Reading `tieline.toml`: what comes out, and the exact words for everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from gateway.config import Config, ConfigError, PeerConfig, find_config, for_one_peer, load, parse
from gateway.config.load import PATIENCE_S

FILE = Path("/etc/tieline/tieline.toml")


def read(text: str, environ: Mapping[str, str] | None = None) -> Config:
    return parse(text, path=FILE, environ=environ or {})


def mistakes(text: str, environ: Mapping[str, str] | None = None) -> list[str]:
    """Return what is wrong with a file, without the path before the line."""
    with pytest.raises(ConfigError) as caught:
        read(text, environ)
    return [str(mistake).replace(f"{FILE}:", "") for mistake in caught.value.mistakes]


def test_an_empty_file_is_a_gateway_on_stdio_without_peers() -> None:
    config = read("")

    assert config.peers == {}
    assert config.listen.uses_stdio
    assert config.record.enabled
    assert config.source == str(FILE)


def test_peers_keep_the_order_of_the_file() -> None:
    config = read('[peers.z]\nurl = "http://a/mcp"\n[peers.a]\nurl = "http://b/mcp"\n[peers.m]\nunix = "/m"')

    assert list(config.peers) == ["z", "a", "m"]


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ('command = ["server"]', "stdio"),
        ('command = "server"', "stdio"),
        ('url = "https://example.com/mcp"', "http"),
        ('url = "http://example.com/sse"\ntype = "sse"', "sse"),
        ('url = "ws://example.com"', "websocket"),
        ('url = "wss://example.com"', "websocket"),
        ('unix = "/run/server.sock"', "unix"),
    ],
)
def test_a_peer_is_reached_by_what_it_names(lines: str, kind: str) -> None:
    assert read(f"[peers.p]\n{lines}").peers["p"].kind == kind


def test_a_command_as_text_takes_its_arguments_from_args() -> None:
    config = read('[peers.p]\ncommand = "npx"\nargs = ["-y", "server"]')

    assert config.peers["p"].command == ["npx", "-y", "server"]


def test_what_is_relative_begins_at_the_directory_of_the_file() -> None:
    config = read(
        """
        [record]
        dir = "recordings"
        [listen.unix]
        path = "run/core.sock"
        [peers.here]
        command = ["server"]
        [peers.below]
        command = ["server"]
        cwd = "below"
        """
    )

    assert config.record.dir == "/etc/tieline/recordings"
    assert config.listen.unix is not None
    assert config.listen.unix.path == "/etc/tieline/run/core.sock"
    assert config.peers["here"].cwd == "/etc/tieline"
    assert config.peers["below"].cwd == "/etc/tieline/below"


def test_any_other_listener_takes_the_place_of_stdio_unless_stdio_is_asked_for() -> None:
    assert not read("[listen.http]").listen.uses_stdio
    assert read("[listen]\nstdio = true\n[listen.http]").listen.uses_stdio
    assert not read("[listen]\nstdio = false").listen.uses_stdio
    assert read("").listen.is_for_one
    assert not read("[listen]\nstdio = true\n[listen.http]").listen.is_for_one
    assert not read("[listen.http]").listen.is_for_one


def test_all_mistakes_are_told_at_once_each_with_its_line_and_a_suggestion() -> None:
    text = """[peers.db]
comand = ["server"]
era = "autoo"
start_timeout_s = -3

[peers.files]
command = "npx some-server"
headers = { a = "b" }

[limits]
max_sesions = 3
max_sessions = "many"

[listen.http]
host = "0.0.0.0"
tls = { cert = "cert.pem" }

[record.redact]
patterns = ["(", "fine"]
keys = ["badge", "params"]
"""
    assert mistakes(text) == [
        "2: `peers.db.comand` is not a known key; did you mean `command`?",
        '3: `peers.db.era` must be one of `auto`, `legacy`, `modern`, found "autoo"; did you mean `auto`?',
        "4: `peers.db.start_timeout_s` must be a number above 0 up to 86400, found -3",
        '7: `peers.files.command` is run without a shell; write `command = ["npx", "some-server"]`',
        "8: `peers.files.headers` belongs to a peer with `url`, this one has `command`",
        "11: `limits.max_sesions` is not a known key; did you mean `max_sessions`?",
        '12: `limits.max_sessions` must be a whole number of 1 or more, found "many"',
        "16: `listen.http.tls.key` is missing",
        "19: `record.redact.patterns[0]` is not an RE2 pattern: missing ): (",
        "20: `record.redact.keys[1]` is what a part of every message is called",
    ]


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("[peer.db]", "1: `peer` is not a known key; did you mean `peers`?"),
        ("zebra = 1", "1: `zebra` is not a known key"),
        ('source = "x"', "1: `source` is not a known key"),
        ("[peers]\ndb = 1", "2: `peers.db` must be a table, found a number"),
        ("peers = 1", "1: `peers` must be a table, found a number"),
        ("[peers.db]", "1: `peers.db` needs exactly one of `command`, `url` and `unix`, has none"),
        (
            '[peers.db]\ncommand = ["x"]\nurl = "http://x/"',
            "1: `peers.db` needs exactly one of `command`, `url` and `unix`, has `command` and `url`",
        ),
        (
            '[peers."my db"]\ncommand = ["x"]',
            '1: `peers."my db"` must be named with up to 64 letters, digits, `_` and `-`',
        ),
        (
            "[peers.db]\ncommand = [1]",
            "2: `peers.db.command` must be a list of text, found a list (at `[0]`)",
        ),
        (
            '[peers.db]\nargs = ["x"]',
            "1: `peers.db` needs exactly one of `command`, `url` and `unix`, has none",
        ),
        (
            '[peers.db]\ncommand = ["x"]\nargs = ["y"]',
            "3: `peers.db.args` belongs to a `command` that is text",
        ),
        ('[peers.db]\nunix = "x"\nargs = ["y"]', "3: `peers.db.args` belongs to a `command` that is text"),
        ('[peers.db]\ncommand = "x"\nargs = "y"', "3: `peers.db.args` must be a list of text"),
        (
            '[peers.db]\nurl = "example.com/mcp"',
            "2: `peers.db.url` must begin with `http://`, `https://`, `ws://` or `wss://` and a host",
        ),
        ('[peers.db]\nurl = "http://[::1/mcp"', "2: `peers.db.url` is not a URL"),
        (
            '[peers.db]\nurl = "ws://x/"\ntype = "sse"',
            "3: `peers.db.type` is `sse`, but a `ws` URL is `websocket`",
        ),
        (
            '[peers.db]\ncommand = ["x"]\ntype = "http"',
            "3: `peers.db.type` is `http`, but `command` makes it `stdio`",
        ),
        (
            '[peers.db]\nurl = "http://x/"\n[peers.db.env]\nA = "b"',
            "3: `peers.db.env` belongs to a peer with `command`, this one has `url`",
        ),
        (
            '[peers.db]\nurl = "http://x/"\nhops = true',
            "3: `peers.db.hops` belongs to a peer with `command`, this one has `url`",
        ),
        (
            '[peers.db]\ncommand = ["x"]\ndialect = "pi"\nhops = true',
            "4: `peers.db.hops` is for adapters that speak `mcp`, and `dialect` is `pi`",
        ),
        (
            '[peers.db]\ncommand = ["x"]\nscope = "shared"\nhops = true',
            '4: `peers.db.hops` needs `scope = "session"`: what a shared peer says to its service is part of no one '
            "session",
        ),
        (
            '[peers.db]\nurl = "wss://x/"\noauth = {}',
            "3: `peers.db.oauth` belongs to an HTTP peer, this one is a websocket",
        ),
        (
            '[peers.db]\nunix = "/x"\nlimits = { memory_bytes = 1000 }',
            "3: `peers.db.limits.memory_bytes` belongs to a peer with `command`, this one has `unix`",
        ),
        (
            '[peers.db]\ncommand = ["x"]\nera = "legacy"\nversion = "2026-07-28"',
            "4: `peers.db.version` is `2026-07-28`, which is not of the `legacy` era",
        ),
        (
            '[peers.db]\ncommand = ["x"]\nversion = "latest"',
            r"3: `peers.db.version` must be text that matches `^\d{4}-\d\d-\d\d$`, found text",
        ),
        (
            '[peers.db]\ncommand = ["x"]\ntools.rename = { a = "c", b = "c" }',
            "3: `peers.db.tools.rename.b` gives the name `c`, which `a` is given already",
        ),
        (
            '[peers.db]\ncommand = ["x"]\nprefix = "my db"',
            "3: `peers.db.prefix` may hold letters, digits, `_`, `.` and `-` only",
        ),
        (
            '[peers.db]\ncommand = ["x"]\ndisabled = 1',
            "3: `peers.db.disabled` must be `true` or `false`, found a number",
        ),
        (
            "[listen.http]\nport = 80\n[listen.websocket]\nport = 80",
            "4: `listen.websocket.port` is 80, which `listen.http` has already",
        ),
        (
            "[listen.http]\nport = 65536",
            "2: `listen.http.port` must be a whole number of 0 or more up to 65535, found 65536",
        ),
        (
            '[listen.http]\nhost = "192.0.2.1"',
            "2: `listen.http.host` is `192.0.2.1`, not loopback: that needs a `tls` section",
        ),
        (
            '[listen.websocket]\nhost = "::"\ninsecure_loopback = true\ntls = { cert = "c", key = "k" }',
            "3: `listen.websocket.insecure_loopback` is for loopback only, and `host` is `::`",
        ),
        (
            '[catalog]\nseparator = " "',
            "2: `catalog.separator` may hold letters, digits, `_`, `.` and `-` only",
        ),
        (
            '[[replay.rule]]\nat = "/params/x"\nas = "ignor"',
            "3: `replay.rule[0].as` must be `ignore`, one of uuid, hex, timestamp, tempname, pid, port, secret, "
            "session, cursor, state, cwd, home, tmp, or a class of your own that begins with `x-`; "
            "did you mean `ignore`?",
        ),
        ("[replay]\nrule = [1]", "2: `replay.rule` must be a list of tables, found a list (at `[0]`)"),
        ('[replay]\nexact = ["x"]', "2: `replay.exact[0]` must be one of uuid, hex, timestamp, tempname, pid, port, "
         "secret, session, cursor, state, cwd, home, tmp"),
        ("[limits\n", "1: is not valid TOML: Expected ']' at the end of a table declaration (column 8)"),
        ("a = 1\na = 2\n", "2: is not valid TOML: Cannot overwrite a value (column 6)"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_in_these_words(text: str, mistake: str) -> None:
    assert mistakes(text) == [mistake]


def test_what_another_mistake_hides_is_not_told_as_a_second_one() -> None:
    assert mistakes('[peers.db]\ncomand = ["x"]') == [
        "2: `peers.db.comand` is not a known key; did you mean `command`?"
    ]


def test_a_file_that_is_not_there_is_told_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml: cannot be read: No such file or directory"):
        load(tmp_path / "nowhere.toml")


def test_a_file_that_is_not_text_is_told_with_the_place(tmp_path: Path) -> None:
    path = tmp_path / "tieline.toml"
    path.write_bytes(b"a = '\xff'")

    with pytest.raises(ConfigError, match="is not UTF-8 at byte 5"):
        load(path)


def test_a_byte_order_mark_and_windows_line_ends_are_read(tmp_path: Path) -> None:
    path = tmp_path / "tieline.toml"
    path.write_bytes(b"\xef\xbb\xbf[limits]\r\nmax_sessions = 3\r\n")

    assert load(path).limits.max_sessions == 3


def test_a_process_gets_little_of_our_environment_and_what_its_peer_names() -> None:
    config = read('[peers.p]\ncommand = ["x"]\ninherit_env = ["AWS_*"]\nenv = { LANG = "C", OWN = "1" }')
    environ = {
        "PATH": "/bin",
        "LANG": "de",
        "LC_ALL": "C",
        "AWS_REGION": "r",
        "GITHUB_TOKEN": "t",
        "PWD": "/",
    }

    assert config.peers["p"].environment(environ) == {
        "PATH": "/bin",
        "LANG": "C",
        "LC_ALL": "C",
        "AWS_REGION": "r",
        "OWN": "1",
    }


def test_a_process_is_told_whom_to_trust_and_how_to_get_out_but_no_credentials() -> None:
    environ = {
        "NODE_EXTRA_CA_CERTS": "/etc/own.pem",
        "SSL_CERT_FILE": "/etc/own.pem",
        "HTTPS_PROXY": "http://proxy:3128",
        "http_proxy": "http://proxy:3128",
        "NO_PROXY": "localhost",
    }
    peer = read('[peers.p]\ncommand = ["x"]').peers["p"]

    assert peer.environment(environ | {"ALL_PROXY": "http://me:canary@proxy:3128"}) == environ


def test_a_tool_is_offered_if_it_is_allowed_and_not_denied() -> None:
    tools = (
        read('[peers.p]\nunix = "/x"\ntools = { allow = ["read_*"], deny = ["*_secret"] }').peers["p"].tools
    )

    assert tools.offers("read_file")
    assert not tools.offers("write_file")
    assert not tools.offers("read_secret")


def test_the_file_here_is_found_ours_before_another_clients(tmp_path: Path) -> None:
    assert find_config(tmp_path) is None
    (tmp_path / ".mcp.json").touch()
    assert find_config(tmp_path) == tmp_path / ".mcp.json"
    (tmp_path / "tieline.toml").touch()
    assert find_config(tmp_path) == tmp_path / "tieline.toml"


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["npx", "-y", "@modelcontextprotocol/server-everything"], "server-everything"),
        (["uvx", "mcp-server-git", "--repository", "."], "mcp-server-git"),
        (["python3", "-u", "/srv/my server.py"], "my-server-py"),
        (["node"], "node"),
        (["python3", "-c", "raise SystemExit('boom: set API_KEY')"], "python3"),
        (["sh", "-c", "TOKEN=not-a-real-token server"], "sh"),
        (["env", "TOKEN=not-a-real-token", "mcp-server"], "mcp-server"),
        (["uvx", "--from", "git+https://user:not-a-real-token@example.com/x", "mcp-x"], "mcp-x"),
        (["node", "--eval", "require('./server')"], "node"),
        (["TOKEN=x"], "peer"),
    ],
)
def test_a_recorded_command_gives_its_peer_a_name(command: list[str], name: str) -> None:
    config = for_one_peer(command=command, environ={})

    assert config.peers == {
        name: PeerConfig(command=command, inherit_env=["*"], start="eager", start_timeout_s=PATIENCE_S)
    }


def test_a_recorded_command_sees_the_whole_environment_and_its_secrets_are_known() -> None:
    environ = {"OPENAI_API_KEY": "sk-not-a-real-key", "EDITOR": "vi"}
    config = for_one_peer(command=["server"], environ=environ)

    assert config.peers["server"].environment(environ) == environ
    assert config.secret_values() == {"sk-not-a-real-key"}


def test_a_recorded_url_that_ends_in_sse_is_the_legacy_transport() -> None:
    assert for_one_peer(url="https://example.com/sse", environ={}).peers["example-com"].kind == "sse"
    assert for_one_peer(url="https://example.com/mcp", environ={}).peers["example-com"].kind == "http"


def test_headers_of_a_recorded_url_may_name_variables_and_what_these_hold_is_secret() -> None:
    lines = ["Authorization: Bearer ${TICKET}", "X-Tenant:${WHO}", "X-Plain:  as it is: yes"]
    environ = {"TICKET": "not-a-real-ticket", "WHO": "somebody"}

    config = for_one_peer(url="https://example.com/mcp", headers=lines, environ=environ)

    assert config.peers["example-com"].headers == {
        "Authorization": "Bearer not-a-real-ticket",
        "X-Tenant": "somebody",
        "X-Plain": "as it is: yes",
    }
    secrets = config.secret_values()
    assert {"not-a-real-ticket", "somebody"} <= secrets
    assert "as it is: yes" not in secrets


def test_every_mistake_of_a_table_is_told_whatever_else_is_wrong_with_it() -> None:
    text = (
        '[peers.a]\nurl = "htp://x"\ncolour = "red"\n[peers.a.headers]\n"X Y" = "1"\n'
        '[peers.b]\ncomand = ["x"]\nprefix = "a b"\n'
        '[catalog]\nprefix = "no"\nseparator = "/"\n'
        '[listen.http]\nhost = "0.0.0.0"\nport = 70000\n'
    )
    assert mistakes(text) == [
        "2: `peers.a.url` must begin with `http://`, `https://`, `ws://` or `wss://` and a host",
        "3: `peers.a.colour` is not a known key",
        '5: `peers.a.headers."X Y"` is not the name of a header',
        "7: `peers.b.comand` is not a known key; did you mean `command`?",
        "8: `peers.b.prefix` may hold letters, digits, `_`, `.` and `-` only",
        '10: `catalog.prefix` must be one of `auto`, `always`, `never`, found "no"',
        "11: `catalog.separator` may hold letters, digits, `_`, `.` and `-` only",
        "13: `listen.http.host` is `0.0.0.0`, not loopback: that needs a `tls` section",
        "14: `listen.http.port` must be a whole number of 0 or more up to 65535, found 70000",
    ]


def test_what_is_wrong_on_the_command_line_is_told_by_its_option() -> None:
    with pytest.raises(ConfigError) as caught:
        for_one_peer(url="example.com/mcp", environ={})
    assert str(caught.value) == (
        "`--url` must begin with `http://`, `https://`, `ws://` or `wss://` and a host"
    )


def test_a_recorded_server_may_take_its_time_since_it_may_have_to_be_downloaded() -> None:
    assert for_one_peer(command=["npx", "-y", "server"], environ={}).peers["server"].start_timeout_s >= 60


def test_the_working_directory_of_the_shell_is_recorded_as_it_is() -> None:
    environ = {"PWD": "/home/somebody/project", "OLDPWD": "/home/somebody", "DB_PWD": "not-a-real-one"}
    assert for_one_peer(command=["server"], environ=environ).secret_values() == {"not-a-real-one"}


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["Authorization"], "must be `Name: value`"),
        ([": value"], "must be `Name: value`"),
        (["a b: value"], "must be `Name: value`"),
        (["A: 1", "a: 2"], "gives `a` twice"),
        (["A: ${NOBODY}"], "`NOBODY`, which is not set"),
        (["A: ${LINES}"], "line break"),
        (["A: x\r\nB: y"], "line break"),
    ],
)
def test_a_header_that_cannot_be_sent_is_told_without_its_value(lines: list[str], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        for_one_peer(url="https://example.com/mcp", headers=lines, environ={"LINES": "canary\nX: y"})
    assert says in str(caught.value)
    assert "canary" not in str(caught.value)


def test_headers_of_a_file_are_held_to_what_can_be_sent() -> None:
    text = '[peers.a]\nurl = "https://a"\n[peers.a.headers]\n"X Y" = "1"\nB = "a\\nb"\nC = "é"\nD = "fine"\n'
    assert mistakes(text) == [
        '4: `peers.a.headers."X Y"` is not the name of a header',
        "5: `peers.a.headers.B` holds a line break or another character that no header may",
        "6: `peers.a.headers.C` holds a line break or another character that no header may",
    ]


def test_a_mistake_in_a_document_that_is_about_too_deep_is_told_with_or_without_its_line() -> None:
    for depth in range(900, 1010, 10):
        text = '{"mcpServers": {"a": {"command": 5, "more": ' + "[" * depth + "]" * depth + "}}}"
        with pytest.raises(ConfigError) as raised:
            parse(text, path=Path("/nowhere/.mcp.json"), environ={})
        (mistake,) = raised.value.mistakes
        assert mistake.message in ("must be a list of text, found a number", "is not valid JSON: too deep")
