"""The cheap parser takes the plain case and leaves everything else to the full one."""

from __future__ import annotations

import pytest

from gateway.cli.arguments import plain


def split(line: str, *, command: bool = False) -> tuple[dict[str, str], list[str]] | None:
    result = plain(line.split(), flags=("--flag",), values=("--value",), command=command)
    return None if result is None else (dict(result[0]), result[1])


PLAIN: list[tuple[str, tuple[dict[str, str], list[str]]]] = [
    ("", ({}, [])),
    ("file", ({}, ["file"])),
    ("--flag file --value 1", ({"--flag": "", "--value": "1"}, ["file"])),
    ("--value=1 file", ({"--value": "1"}, ["file"])),
    ("--value=", ({"--value": ""}, [])),
    ("-- --flag", ({}, ["--flag"])),
]


@pytest.mark.parametrize(("line", "expected"), PLAIN)
def test_plain_arguments_are_split(line: str, expected: tuple[dict[str, str], list[str]]) -> None:
    assert split(line) == expected


@pytest.mark.parametrize(
    "line", ["--help", "-h", "--other", "--flag=1", "--flag --flag", "--value", "--value --flag"]
)
def test_anything_else_is_left_to_the_full_parser(line: str) -> None:
    assert split(line) is None


@pytest.mark.parametrize(
    ("line", "rest"),
    [
        ("--value 1 -- npx -y --flag server", ["npx", "-y", "--flag", "server"]),
        ("npx -y --flag server -- x", ["npx", "-y", "--flag", "server", "--", "x"]),
        ("-- -- x", ["--", "x"]),
    ],
)
def test_a_command_keeps_its_own_options(line: str, rest: list[str]) -> None:
    result = split(line, command=True)

    assert result is not None
    assert result[1] == rest
