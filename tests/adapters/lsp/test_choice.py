"""Which servers a command line means, and what is said where it means none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from adapters import kit
from adapters.lsp import tsserver
from adapters.lsp.choice import ChoiceError, choose
from adapters.lsp.servers import PRESETS, Server

BASH = """
[bash]
command = ["bash-language-server", "start"]
languages = { ".sh" = "shellscript" }

[ruff]
settings = { lint = { select = ["ALL"] } }
"""


def test_presets_are_named_in_the_order_in_which_they_are_asked() -> None:
    assert [each.name for each in choose(["ruff", "basedpyright"], None)] == ["ruff", "basedpyright"]
    assert [each.name for each in choose([], None)] == ["basedpyright"]
    presets = {"basedpyright", "ruff", "ty", "jedi", "clangd", "typescript", "gopls", "rust-analyzer"}
    assert PRESETS.keys() == presets


def test_a_preset_may_be_started_by_another_command() -> None:
    [server] = choose([f"ty={sys.executable} -m 'a b'"], None)
    assert (server.name, server.command()) == ("ty", [sys.executable, "-m", "a b"])
    assert server.languages == PRESETS["ty"].languages


def test_servers_of_a_file_stand_beside_the_presets_and_change_them(tmp_path: Path) -> None:
    file = tmp_path / "servers.toml"
    file.write_text(BASH)
    bash, ruff = choose([], str(file))
    assert (bash.program, bash.arguments, bash.language("x.sh")) == (
        "bash-language-server",
        ("start",),
        "shellscript",
    )
    assert (ruff.program, ruff.settings) == ("ruff", {"lint": {"select": ["ALL"]}})
    assert [each.name for each in choose(["ty", "bash"], str(file))] == ["ty", "bash"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[x]\nlanguages = { ".x" = "x" }', r"\[x\] needs command"),
        ('[x]\ncommand = ["x"]', r"\[x\] needs languages"),
        ('[ty]\nwait = "soon"', "Invalid enum value 'soon'"),
        ('[ty]\nwait = "status"', "needs sign, the method that tells"),
        ("[ty]\ncolour = 1", "unknown field `colour`"),
        ("[ty", "Expected"),
    ],
)
def test_what_is_wrong_in_a_file_is_said(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "servers.toml"
    file.write_text(text)
    with pytest.raises(ChoiceError, match=words):
        choose([], str(file))


@pytest.mark.parametrize(
    ("names", "file", "words"),
    [
        (["rufff"], None, "--server rufff: not known; did you mean ruff?"),
        (["ty", "ty"], None, "twice"),
        ([], "/nowhere.toml", "No such file"),
    ],
)
def test_what_is_wrong_on_the_command_line_is_said(names: list[str], file: str | None, words: str) -> None:
    with pytest.raises(ChoiceError) as met:
        choose(names, file)
    assert words in str(met.value)


def test_the_program_ends_with_a_sentence_and_no_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "adapters.lsp", "--root", str(tmp_path), "--server", "tye"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("tieline-lsp: --server tye: not known; did you mean ty?")


def test_a_server_that_is_not_installed_is_named_with_what_brings_it() -> None:
    missing = Server(name="x", program="no-such-server", languages={".x": "x"}, install="pip install x")
    with pytest.raises(kit.ToolError, match="no-such-server is not installed: pip install x"):
        missing.command()


def test_the_longest_end_of_a_name_decides_the_language() -> None:
    server = Server(name="x", program="x", languages={".html": "html", ".x.html": "x"})
    assert [server.language(path) for path in ("a.html", "a.x.html", "a.txt")] == ["html", "x", "plaintext"]


def test_what_tsserver_says_is_read_as_the_protocol_has_it() -> None:
    reply = b"""{"success":true,"body":[{"start":{"line":2,"offset":3},"end":{"line":2,"offset":5},
        "text":"wrong","code":2345,"category":"suggestion"}]}"""
    [found] = tsserver.diagnostics(msgspec.Raw(reply)) or []
    assert bytes(found) == (
        b'{"range":{"start":{"line":1,"character":2},"end":{"line":1,"character":4}},'
        b'"message":"wrong","severity":4,"code":2345,"source":"typescript"}'
    )


@pytest.mark.parametrize("reply", [b"null", b'{"success":false,"message":"No Project."}', b"[]"])
def test_no_answer_of_tsserver_is_not_an_answer_without_faults(reply: bytes) -> None:
    assert tsserver.diagnostics(msgspec.Raw(reply)) is None
