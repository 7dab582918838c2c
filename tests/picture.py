"""Draws the pictures of the documents: real runs of `tieline demo` and `tieline-lsp`, as a terminal shows them.

`make picture` runs them and writes `docs/images/demo.svg` and `docs/images/language-servers.svg`. Nothing in them is
made up but the place of the demo's directory, which is another one in each run, and the end of lines that are longer
than the picture is wide.
"""

from __future__ import annotations

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

IMAGES = Path(__file__).parents[1] / "docs" / "images"
PICTURE = IMAGES / "demo.svg"
LANGUAGE_SERVERS = IMAGES / "language-servers.svg"
SERVERS = "tieline-lsp --root shop ask "
ASKED = (
    "references symbol=Money.plus",
    "hover path=shop/till.py line=12 symbol=GREETING",
    "diagnostics severity=error",
    "rename symbol=Basket.total new_name=sum",
)
"""What the page about language servers asks, in the picture's order."""
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


def _colour(line: str) -> str:
    """A patch in its usual colours."""
    if line.startswith(("+++", "---", "diff ")):
        return "bold"
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")


def terminal(title: str, commands: Sequence[tuple[str, Sequence[Text]]], name: str) -> str:
    """Return the picture of a terminal with commands and what they have printed. `name` tells pictures apart."""
    console = Console(
        record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    for command, lines in commands:
        console.print(Text.assemble(("$ ", "green"), (command, "bold")), no_wrap=True, crop=True)
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
        pictures = {PICTURE: drawn(run(directory), directory), LANGUAGE_SERVERS: asked(ask(Path(place)))}
    IMAGES.mkdir(parents=True, exist_ok=True)
    for path, picture in pictures.items():
        path.write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
