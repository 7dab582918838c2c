"""Draws the pictures of the documents: real runs of `tieline demo` and of our peers, as a terminal shows them.

`make picture` runs them and writes `demo.svg`, `language-servers.svg`, `databases.svg` and `editor.svg` in
`docs/images`. Nothing in them is made up but the place of the demo's directory and of the editor's socket, which are
others in each run, and the end of lines that are longer than the picture is wide.
"""

from __future__ import annotations

import asyncio
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from adapters.database.sample import create
from tests.adapters.editor.kit import person
from tests.adapters.editor.screen import Screen

IMAGES = Path(__file__).parents[1] / "docs" / "images"
PICTURE = IMAGES / "demo.svg"
LANGUAGE_SERVERS = IMAGES / "language-servers.svg"
EDITOR = IMAGES / "editor.svg"
EDITOR_PAGE = IMAGES.parent / "howto" / "editor.md"
SERVERS = "tieline-lsp --root shop ask "
ASKED = (
    "references symbol=Money.plus",
    "hover path=shop/till.py line=12 symbol=GREETING",
    "diagnostics severity=error",
    "rename symbol=Basket.total new_name=sum",
)
"""What the page about language servers asks, in the picture's order."""
DATABASES = IMAGES / "databases.svg"
SHOP = "tieline-database --url sqlite:///shop.db "
ASKED_SHOP = (
    "ask schema table='order*'",
    "ask query sql='SELECT * FROM revenue ORDER BY cents DESC' max_rows=3",
    "ask query sql='DELETE FROM order_lines'",
    "ask query sql='SELECT nam FROM products'",
    "--writable ask execute sql='DELETE FROM order_lines WHERE quantity > 3' commit=false",
)
"""What the page about databases asks, in the picture's order."""
WIDTH = 112
LAST = re.compile(r"^\d+ frames in ")
"""The line after which something is left out: the tables there would make the picture twice as high."""
REPLAY = "Now the same once more"
"""Where it goes on, for three lines."""
FONT = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace"
THEME = TerminalTheme(
    (30, 34, 42),
    (220, 223, 228),
    [
        *((40, 44, 52), (224, 108, 117), (152, 195, 121), (229, 192, 123)),
        *((97, 175, 239), (198, 120, 221), (86, 182, 194), (220, 223, 228)),
    ],
    [
        *((122, 130, 145), (224, 108, 117), (152, 195, 121), (229, 192, 123)),
        *((97, 175, 239), (198, 120, 221), (86, 182, 194), (255, 255, 255)),
    ],
)


def run(directory: Path) -> str:
    """Run the demo and return what it prints, colours included.

    Raises:
        subprocess.CalledProcessError: If something did not happen as scripted.
    """
    command = [sys.executable, "-c", "from gateway.cli.main import main; raise SystemExit(main())"]
    done = subprocess.run(
        [*command, "demo", "--out", str(directory)],
        env={**os.environ, "FORCE_COLOR": "1", "TERM": "xterm-256color"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout


def drawn(output: str, directory: Path) -> str:
    """Return the picture of what a run in `directory` printed."""
    lines = [Text.from_ansi(line) for line in output.replace(str(directory), "demo").splitlines()]
    summary = next((at for at, line in enumerate(lines) if LAST.match(line.plain)), len(lines))
    replay = next((at for at, line in enumerate(lines) if line.plain.startswith(REPLAY)), len(lines))
    # The tables in between are long.
    shown = [*lines[: summary + 1], Text("…"), *lines[replay : replay + 3]]
    return terminal("tieline demo", [("tieline demo", shown)], "demo")


def ask(directory: Path) -> list[tuple[str, str]]:
    """Ask what the page about language servers asks, of the sample project; each command with what it prints.

    Raises:
        subprocess.CalledProcessError: If something did not happen as the page says.
    """
    program = Path(sys.executable).with_name("tieline-lsp")
    subprocess.run([program, "--write-sample", "shop"], cwd=directory, check=True, timeout=20)
    found: list[tuple[str, str]] = []
    for words in ASKED:
        command = [program, *shlex.split(SERVERS + words)[1:]]
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=120, check=True)
        found.append((words, done.stdout))
    return found


def asked(answers: list[tuple[str, str]]) -> str:
    """Return the picture of what was asked of language servers."""
    shown = [
        (SERVERS + words, [Text(line, _colour(line)) for line in out.splitlines()]) for words, out in answers
    ]
    return terminal("tieline-lsp", shown, "language-servers")


def proposal() -> str:
    """The commands of the page about editors, as a script."""
    [block] = re.findall(r"^```sh\n(.*?)^```", EDITOR_PAGE.read_text(), re.M | re.S)
    return str(block)


async def propose(directory: Path, screen: Screen, answer: str) -> str:
    """Do what the page about editors does, with a real Neovim and a person who answers the proposal by these keys.

    Returns what the commands print. The screen is left as it was before the last of the keys was typed.

    Raises:
        subprocess.CalledProcessError: If something did not happen as the page says.
    """
    programs = Path(sys.executable).parent
    subprocess.run(
        [programs / "tieline-lsp", "--write-sample", "shop"], cwd=directory, check=True, timeout=20
    )
    async with person(directory, screen) as somebody:
        await somebody.type(":edit shop/shop/money.py<CR>")
        script = proposal().replace("nvim.sock", shlex.quote(somebody.socket))
        process = await asyncio.create_subprocess_exec(
            "bash", "-e", "-c", script, cwd=directory, stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
        )  # fmt: skip
        async with asyncio.timeout(120):
            await somebody.until("&diff && bufname() =~ '^tieline'")
            *keys, last = re.findall(r"<\w+>|.", answer)
            await somebody.type("".join(keys))
            shown = screen.copy()
            await somebody.type(last)
            printed, _ = await process.communicate()
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, script)
    screen.take(shown)
    return printed.decode()


def edited(screen: Screen, printed: str) -> str:
    """Return the picture of a person who answers a proposal."""
    shown = [Text(line) for line in printed.splitlines()[-1:]]
    nvim = ("nvim --listen ./nvim.sock shop/shop/money.py", screen.shown())
    return terminal("nvim", [nvim, (proposal().splitlines()[-1], shown)], "editor")


def query(directory: Path) -> list[tuple[str, str]]:
    """Ask what the page about databases asks, of the sample; each command with what it prints."""
    create(str(directory / "shop.db"))
    program = Path(sys.executable).with_name("tieline-database")
    found: list[tuple[str, str]] = []
    for words in ASKED_SHOP:
        command = [program, *shlex.split(SHOP + words)[1:]]
        done = subprocess.run(
            command, cwd=directory, capture_output=True, text=True, timeout=120, check=False
        )
        found.append((words, done.stdout + done.stderr))
    return found


def queried(answers: list[tuple[str, str]]) -> str:
    """Return the picture of what was asked of a database."""
    shown = [
        (SHOP + words, [Text(line) for line in out.expandtabs(12).splitlines()]) for words, out in answers
    ]
    return terminal("tieline-database", shown, "databases")


def _colour(line: str) -> str:
    """A patch in its usual colours."""
    if line.startswith(("+++", "---", "diff ")):
        return "bold"
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")


def folded(command: str) -> list[str]:
    """A command over as many lines as it takes, parted where a shell takes it so."""
    if len(f"$ {command}") <= WIDTH:
        return [command]
    lines = [""]
    for word in re.findall(r"(?:[^\s']|'[^']*')+", command):
        if lines[-1] and len(lines[-1]) + len(word) > WIDTH - len("     \\"):
            lines[-1] += " \\"
            lines.append(word)
        else:
            lines[-1] += f" {word}" if lines[-1] else word
    return lines


def terminal(title: str, commands: Sequence[tuple[str, Sequence[Text]]], name: str) -> str:
    """Return the picture of a terminal with commands and what they have printed. `name` tells pictures apart."""
    console = Console(
        record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    for command, lines in commands:
        for at, part in enumerate(folded(command)):
            prompt = "    " if at else "$ "
            console.print(Text.assemble((prompt, "green"), (part, "bold")), no_wrap=True, crop=True)
        for line in lines:
            line.truncate(WIDTH, overflow="ellipsis")
            console.print(line, no_wrap=True, crop=True)
    # Fonts from elsewhere would be fetched by nobody who looks at a picture in a page.
    without_fonts = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    code_format = without_fonts.replace("Fira Code, monospace", FONT)
    return console.export_svg(title=title, theme=THEME, code_format=code_format, unique_id=name)


def main() -> None:
    """Write the pictures."""
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place) / "demo"
        pictures = {
            PICTURE: drawn(run(directory), directory),
            LANGUAGE_SERVERS: asked(ask(Path(place))),
            DATABASES: queried(query(Path(place))),
        }
    with tempfile.TemporaryDirectory() as place:
        screen = Screen(WIDTH, 26)
        pictures[EDITOR] = edited(screen, asyncio.run(propose(Path(place), screen, ":w<CR>")))
    IMAGES.mkdir(parents=True, exist_ok=True)
    for path, picture in pictures.items():
        path.write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
