"""The page about editors: its commands are carried out, with a real Neovim, a real language server and a person."""

from __future__ import annotations

import html
import re
from pathlib import Path

from tests import picture
from tests.adapters.editor.screen import Screen
from tests.adapters.kit_client import run


def test_the_two_minutes_of_the_page_go_as_it_says(tmp_path: Path) -> None:
    screen = Screen(100, 24)

    async def work() -> str:
        return await picture.propose(tmp_path, screen, ":w<CR>")

    printed = run(work())

    first, *selected = printed.splitlines()
    assert first == "shop/money.py is shown"
    assert selected[0] == "shop/money.py:13:1-17:62"
    assert selected[-1] == "shop/money.py: accepted, and saved"
    money = (tmp_path / "shop" / "shop" / "money.py").read_text()
    assert ("def add(self" in money, "def plus(self" in money) == (True, False)
    shown = "\n".join(screen.lines)
    assert "def plus(self" in shown
    assert "def add(self" in shown
    assert "Proposed: :w accepts, :q rejects" in shown
    assert screen.lines[-1] == ":w"


def test_the_picture_of_the_page_shows_that_run() -> None:
    drawn = picture.EDITOR.read_text()
    shown = html.unescape(drawn).replace("\N{NO-BREAK SPACE}", " ")
    for part in ("nvim --listen", ":w accepts, :q rejects", "def", "shop/money.py: accepted, and saved"):
        assert part in shown
    assert picture.proposal().splitlines()[-1] in shown
    assert "/tmp/" not in shown
    assert set(re.findall(r"https?://[^\s\"')]+", drawn)) <= {
        "http://www.w3.org/2000/svg",
        "https://www.textualize.io",
    }
