"""Configuration files of other clients, read as they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.config import Config, ConfigError, PeerConfig, parse

HOME = Path("/home/me/project")


def read(document: dict[str, Any] | str, name: str = ".mcp.json", **environ: str) -> Config:
    text = document if isinstance(document, str) else json.dumps(document, indent=2)
    return parse(text, path=HOME / name, environ=environ)


def test_the_form_that_most_clients_share() -> None:
    config = read(
        {
            "mcpServers": {
                "files": {
                    "command": "npx",
                    "args": ["-y", "@modelcontextprotocol/server-filesystem", "."],
                    "env": {"KEY": "${API_KEY}", "MODE": "${MODE:-fast}"},
                },
                "remote": {"type": "http", "url": "https://example.com/mcp", "headers": {"X-Key": "k"}},
            }
        },
        API_KEY="secret-value",
    )

    assert config.peers == {
        "files": PeerConfig(
            command=["npx", "-y", "@modelcontextprotocol/server-filesystem", "."],
            env={"KEY": "secret-value", "MODE": "fast"},
            type=None,
        ),
        "remote": PeerConfig(url="https://example.com/mcp", type="http", headers={"X-Key": "k"}),
    }
    assert config.secret_values() == {"secret-value"}
    assert config.notes == ()


def test_the_form_of_vs_code_with_comments_and_trailing_commas() -> None:
    config = read(
        """{
          // Servers of this workspace
          "servers": {
            "local": {"type": "stdio", "command": "${workspaceFolder}/bin/server", "args": ["--a=//b"],},
            /* legacy */ "old": {"type": "sse", "url": "https://example.com/events"},
          },
        }""",
        name=".vscode/mcp.json",
    )

    assert config.peers["local"].command == ["/home/me/project/bin/server", "--a=//b"]
    assert config.peers["old"].kind == "sse"


@pytest.mark.parametrize(
    ("entry", "kind", "url"),
    [
        ({"serverUrl": "https://example.com/mcp"}, "http", "https://example.com/mcp"),
        ({"httpUrl": "https://example.com/mcp"}, "http", "https://example.com/mcp"),
        ({"url": "https://example.com/sse"}, "sse", "https://example.com/sse"),
        ({"url": "https://example.com/sse", "type": "streamableHttp"}, "http", "https://example.com/sse"),
        ({"url": "https://example.com/x", "transport": "sse"}, "sse", "https://example.com/x"),
    ],
)
def test_the_spellings_of_a_remote_server(entry: dict[str, str], kind: str, url: str) -> None:
    peer = read({"mcpServers": {"p": entry}}).peers["p"]

    assert (peer.kind, peer.url) == (kind, url)


def test_servers_and_tools_that_the_client_disabled_stay_disabled() -> None:
    config = read(
        {
            "mcpServers": {
                "off": {"command": "a", "disabled": True},
                "not-on": {"command": "b", "enabled": False},
                "on": {"command": "c", "disabled": False, "disabledTools": ["rm"]},
            }
        }
    )

    assert list(config.active_peers) == ["on"]
    assert not config.peers["on"].tools.offers("rm")


def test_settings_that_only_the_client_understands_are_noted() -> None:
    config = read({"mcpServers": {"p": {"command": "a", "autoApprove": ["x"]}}})

    assert config.notes == (
        "/home/me/project/.mcp.json:5: `mcpServers.p.autoApprove` is a setting of another client and does "
        "nothing here",
    )


def test_a_name_that_is_no_tool_prefix_gets_one_that_is() -> None:
    config = read({"mcpServers": {"My Server (2)": {"command": "a"}}})

    assert config.peers["My Server (2)"].prefix == "My-Server-2"


def test_the_whole_command_may_hold_spaces() -> None:
    config = read({"mcpServers": {"p": {"command": "/Program Files/server"}}})

    assert config.peers["p"].command == ["/Program Files/server"]


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("{", ":1: is not valid JSON: Expecting property name enclosed in double quotes (column 2)"),
        ("[]", ": has neither `mcpServers` nor `servers`"),
        ('{"other": {}}', ": has neither `mcpServers` nor `servers`"),
        (
            '{"mcpServers": {\n"p": {}}}',
            ":2: `mcpServers.p` needs exactly one of `command`, `url` and `unix`, has none",
        ),
        ('{"mcpServers": {\n"p": 1}}', ":2: `mcpServers.p` must be a table, found a number"),
        (
            '{"mcpServers": {\n"p": {\n"command": 1}}}',
            ":3: `mcpServers.p.command` must be a list of text, found a number",
        ),
        (
            '{"mcpServers": {"p": {"command": "a",\n"env": {"K": "${NONE}"}}}}',
            ":2: `mcpServers.p.env.K` refers to the environment variable `NONE`, which is not set",
        ),
        (
            '{"servers": {"p": {"command": "a",\n"args": [1]}}}',
            ":2: `servers.p.args` must be a list of text",
        ),
    ],
)
def test_a_mistake_is_told_where_it_stands_in_the_clients_file(text: str, mistake: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(text)

    assert str(caught.value) == f"/home/me/project/.mcp.json{mistake}"


def test_json_too_deep_to_read_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match="is not valid JSON: too deep"):
        read('{"mcpServers":' + "[" * 200_000)
