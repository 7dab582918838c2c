"""Draws the picture of the README: a real run of `tieline demo`, as a terminal shows it.

`make picture` runs the demo and writes `docs/images/demo.svg`. Nothing in it is made up but the place of
the demo's directory, which is another one in each run, and the end of lines that are longer than the picture is wide.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "demo.svg"
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
    console = Console(
        record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print(Text.assemble(("$ ", "green"), ("tieline demo", "bold")))
    lines = [Text.from_ansi(line) for line in output.replace(str(directory), "demo").splitlines()]
    summary = next((at for at, line in enumerate(lines) if LAST.match(line.plain)), len(lines))
    replay = next((at for at, line in enumerate(lines) if line.plain.startswith(REPLAY)), len(lines))
    # The tables in between are long.
    for shown in [*lines[: summary + 1], Text("…"), *lines[replay : replay + 3]]:
        shown.truncate(WIDTH, overflow="ellipsis")
        console.print(shown, no_wrap=True, crop=True)
    # Fonts from elsewhere would be fetched by nobody who looks at a picture in a page.
    without_fonts = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    code_format = without_fonts.replace("Fira Code, monospace", FONT)
    return console.export_svg(title="tieline demo", theme=THEME, code_format=code_format, unique_id="demo")


def main() -> None:
    """Write the picture."""
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place) / "demo"
        picture = drawn(run(directory), directory)
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
