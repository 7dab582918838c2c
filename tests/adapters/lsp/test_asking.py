"""The command line's `ask`, and the page about language servers, whose commands are read and whose plan is applied."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from adapters.kit.asking import WordsError, calls
from adapters.lsp.choice import choose
from adapters.lsp.server import build
from adapters.lsp.workspace import Workspace
from tests import picture

PAGE = (Path(__file__).parents[3] / "docs" / "howto" / "language-servers.md").read_text()
COMMANDS = re.findall(r"^tieline-lsp .* ask (.*)$", PAGE, re.M)
APP = build(Workspace(".", choose(["ty"], None)))


@pytest.mark.parametrize("command", COMMANDS)
def test_what_the_page_asks_can_be_asked(command: str) -> None:
    assert calls(APP, ["ask", *shlex.split(command)])


def test_values_are_text_where_text_is_wanted_and_json_elsewhere() -> None:
    words = ["ask", "rename", "symbol=7", "new_name=a=b", "line=7", "then", "list_servers"]
    assert calls(APP, words) == [
        ("rename", {"symbol": "7", "new_name": "a=b", "line": 7}),
        ("list_servers", {}),
    ]
    also = calls(APP, ["ask", "simulate_edit", "path=x", "text=1", 'also=["y"]'])
    assert also == [("simulate_edit", {"path": "x", "text": "1", "also": ["y"]})]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["tell"], "'tell': after the options there is nothing, or `ask TOOL NAME=VALUE"),
        (["ask", "defintion"], "no tool 'defintion'; there are definition, references"),
        (["ask", "hover", "symbl=x"], "hover: 'symbl=x' is none of symbol=…, path=…"),
        (["ask", "hover", "line=x"], "'line=x': JSON is malformed"),
    ],
)
def test_what_cannot_be_asked_is_said(words: list[str], told: str) -> None:
    with pytest.raises(WordsError) as met:
        calls(APP, words)
    assert told in str(met.value)


def lsp(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("tieline-lsp")
    return subprocess.run(
        [program, *words], cwd=directory, capture_output=True, text=True, timeout=50, check=False
    )


def test_everything_that_the_page_asks_is_answered_wholly_and_nothing_written(tmp_path: Path) -> None:
    assert lsp(tmp_path, "--write-sample", "shop").returncode == 0
    asked = [command for command in COMMANDS if "apply_edit" not in command]
    assert len(asked) == 5
    # By one process, so that its server loads once.
    words = shlex.split(" then ".join(asked))
    done = lsp(tmp_path, "--root", "shop", "--whole-s", "40", "ask", *words)
    assert (done.returncode, done.stderr) == (0, "")
    for part in ("shop/money.py:13:9", "Add two amounts", "error", "+    def add(self", 'apply_edit(plan="'):
        assert part in done.stdout, done.stdout
    assert "may be more" not in done.stdout
    assert "def plus(self" in (tmp_path / "shop/shop/money.py").read_text()


@pytest.mark.parametrize("module", ["adapters.lsp", "adapters.database"])
def test_a_sample_is_written_over_nothing_and_what_is_in_the_way_is_said(module: str, tmp_path: Path) -> None:
    def write(to: str) -> str:
        words = [sys.executable, "-m", module, "--write-sample", to]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False)
        return done.stderr

    assert write("shop") == ""
    program = module.replace("adapters.", "tieline-")
    assert write("shop") == f"{program}: --write-sample shop: is there already; name a new one\n"
    (tmp_path / "file").touch()
    assert write("file/shop") == f"{program}: --write-sample file/shop: Not a directory\n"


def test_the_plan_of_the_page_is_the_one_that_its_rename_makes(tmp_path: Path) -> None:
    assert lsp(tmp_path, "--write-sample", "shop").returncode == 0
    [command] = [each for each in COMMANDS if "apply_edit" in each]
    # Another server than the page's gives the same plan, since a plan is what it does.
    done = lsp(tmp_path, "--root", "shop", "--server", "ty", "ask", *shlex.split(command))
    assert done.stderr == ""
    assert done.stdout.endswith("rename to add: wrote shop/basket.py, shop/money.py, shop/till.py\n")
    assert "def add(self" in (tmp_path / "shop/shop/money.py").read_text()
    again = lsp(tmp_path, "--root", "shop", "--server", "ty", "ask", *shlex.split(command))
    assert again.returncode == 1
    assert "rename: shop/money.py does not hold 'Money.plus'" in again.stderr


def test_the_picture_of_the_page_is_drawn_from_what_is_printed() -> None:
    drawn = picture.asked([("rename symbol=a", "--- a/x\n-old\n+new\n")]).replace("&#160;", " ")
    assert "tieline-lsp --root shop ask rename symbol=a" in drawn
    for line in ("-old", "+new"):
        assert line in drawn
    assert {each for each in picture.ASKED if each.startswith("references")} <= set(COMMANDS)
