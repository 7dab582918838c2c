"""`tieline demo`: a gateway with three real peers, an agent that calls them, the recording of it all, and its replay.

Owns the stage (sample data, configuration) and what is shown. The calls are `demo_agent`'s, the process is
`demo_gateway`'s. Exit code 0 only if everything happened as scripted and nothing is left running.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from gateway.cli.output import NO, CliError, console, cut, examples, make_folder, tell_error

if TYPE_CHECKING:
    import typer
    from mcp.client import ClientRequestContext
    from mcp_types import ElicitRequestParams, ElicitResult

    from gateway.cli.demo_agent import Event

Mode: TypeAlias = Literal["auto", "legacy", "2026-07-28"]

LIMIT_S = 55.0
MODES: dict[str, Mode] = {"auto": "auto", "legacy": "legacy", "modern": "2026-07-28"}
MOST = 120
"""Cells of what is said of one event, where the output is no terminal that is narrower."""
HAPPENS = frozenset(("progress", "asked", "cancelled", "error"))
COLOURS = {
    "ok": "green",
    "error": "yellow",
    "wrong": "bold red",
    "cancelled": "cyan",
    "accept": "magenta",
    "decline": "magenta",
    "progress": "dim",
}


def register(app: "typer.Typer") -> None:
    """Add `demo`."""
    import typer

    @app.command(epilog=examples("tieline demo", "tieline demo --out ./demo --era legacy"))
    def demo(
        out: Annotated[
            Path | None,
            typer.Option(metavar="DIR", help="Put data, configuration and recording here; new or empty."),
        ] = None,
        era: Annotated[
            str,
            typer.Option(help="How the agent speaks MCP: auto, legacy (handshake) or modern (2026-07-28)."),
        ] = "auto",
    ) -> int:
        """Watch a gateway at work with three real peers.

        An agent makes some twenty-five calls, the recording of it all is shown, and replayed with the peers gone.

        Ends with 0 if everything happened as scripted and no process is left.
        """
        if era not in MODES:
            raise CliError(f"`{era}` is no era", hint="Say auto, legacy or modern")
        return play(out, MODES[era])

    del demo


def play(out: Path | None, mode: Mode) -> int:
    """Set the stage, let the agent play, show the recording; return the exit code."""
    import asyncio

    need_language_server()
    say = console()
    stage = prepare(out)
    say.print("gateway   tieline run tieline.toml --stdio", markup=False)
    for name, command in commands(stage).items():
        say.print(f"{name:9} python {' '.join(command[1:])}", markup=False, soft_wrap=True)
    say.print()
    try:
        wrong = asyncio.run(_perform(stage, mode))
    except TimeoutError:
        wrong = [f"an end within {LIMIT_S:g} s"]
    wrong += _show_recording(stage, mode)
    for what in wrong:
        tell_error(f"not as scripted: expected {what}")
    return NO if wrong else 0


def need_language_server() -> None:
    """Say at once what would otherwise fail half-way.

    Raises:
        CliError: If the language server that one of the peers serves is not installed.
    """
    beside = os.path.dirname(sys.executable)
    path = os.pathsep.join((beside, os.environ.get("PATH", os.defpath)))
    if shutil.which("basedpyright-langserver", path=path) is None:
        from recordings.extras import extra_hint

        raise CliError(
            "the language server of the demo, basedpyright, is not installed",
            hint=f"`make demo` brings it; or, {extra_hint('demo')}",
        )


def prepare(out: Path | None) -> Path:
    """Write sample data and a configuration into a new directory; return it."""
    if out is None:
        stage = Path(tempfile.mkdtemp(prefix="tieline-demo-"))
    else:
        stage = out.absolute()
        if stage.exists() and (not stage.is_dir() or any(stage.iterdir())):
            raise CliError(f"`{out}` is not an empty directory", hint="Name a new one")
        make_folder(stage)
    (stage / "exports").mkdir()
    for made in (
        ["adapters.database", "--write-sample", str(stage / "shop.db")],
        ["adapters.lsp", "--write-sample", str(stage / "project")],
    ):
        subprocess.run([sys.executable, "-m", *made], check=True)
    lines = ["# Written by `tieline demo`.", ""]
    for name, command in commands(stage).items():
        lines += [f"[peers.{name}]", f"command = [{', '.join(map(_toml, command))}]", ""]
    (stage / "tieline.toml").write_text("\n".join(lines))
    return stage


def commands(stage: Path) -> dict[str, list[str]]:
    """The command of each peer. The adapters are programs of their own: they are started, never imported."""
    python = [sys.executable, "-m"]
    url, exports, project = (
        f"shop=sqlite:///{stage / 'shop.db'}",
        str(stage / "exports"),
        str(stage / "project"),
    )
    return {
        "database": [*python, "adapters.database", "--url", url, "--writable", "--export-dir", exports],
        "files": [*python, "adapters.files", project],
        "lsp": [*python, "adapters.lsp", "--root", project, "--server", "basedpyright"],
    }


async def _perform(stage: Path, mode: Mode) -> list[str]:
    """Run the gateway, let the agent play, end the gateway; return what was not as scripted."""
    import asyncio

    from mcp import Client

    from gateway.cli.demo_agent import Agent
    from gateway.cli.demo_gateway import GatewayProcess

    arguments = ["run", str(stage / "tieline.toml"), "--stdio", "--record", str(stage / "recordings")]
    environ = {**os.environ, "TIELINE_STATE_DIR": str(stage / "state")}
    agent = Agent(_teller())

    async def asked(context: "ClientRequestContext", params: "ElicitRequestParams") -> "ElicitResult":
        return agent.asked(params)

    gateway = await GatewayProcess.start(arguments, environ)
    try:
        async with (
            asyncio.timeout(LIMIT_S),
            Client(gateway.connect(), mode=mode, elicitation_callback=asked) as client,
        ):
            await agent.play(client)
            gateway.look()
    finally:
        wrong = await gateway.end()
    if not wrong:
        told = f"\nThe gateway has ended, and so have the {len(gateway.started)} processes below it."
        console().print(told, markup=False)
    missing = [f"{what} to happen" for what in sorted(HAPPENS - agent.seen)]
    console().print(f"{agent.calls} calls, {len(agent.wrong)} not as scripted.\n", markup=False)
    return [*agent.wrong, *missing, *wrong]


def _teller() -> "Callable[[Event], None]":
    """Prints one line an event; the colours say nothing that the words do not."""
    from rich.text import Text

    from recordings.views import printable, took

    say = console()

    def tell(event: "Event") -> None:
        line = Text(
            f"{event.at_s:7.3f} s  {event.peer:9} {event.what:17} ", no_wrap=True, overflow="ellipsis"
        )
        line.append(f"{took(round(event.took_s * 1e9)) if event.took_s is not None else '':>8}  ")
        line.append(f"{event.outcome:10}", style=COLOURS.get(event.outcome, ""))
        line.append(cut(printable(event.note), MOST))
        say.print(line)

    return tell


def _show_recording(stage: Path, mode: Mode) -> list[str]:
    """Print what was recorded and where it lies, and play it again; return what is wrong with it."""
    from gateway.cli.demo_replay import play_again
    from gateway.cli.frames import show_summary
    from gateway.cli.reading import opened
    from recordings.views import summary

    say = console()
    found = sorted((stage / "recordings").glob("*/recording.json"))
    if not found:
        return ["a recording"]
    where = found[0].parent
    recording = opened(where)
    counts = summary(recording, recording.body)
    say.print(f"The recording {where}", markup=False, soft_wrap=True)
    show_summary(recording, counts)
    say.print()
    wrong = play_again(recording, mode)
    say.print()
    tieline = how_to_call(sys.argv[0])
    say.print("Look at what went wrong, and play it once more:")
    for line in (f"frames {where} --errors", f"replay {where} --drive"):
        say.print(f"  $ {tieline} {line}", markup=False, soft_wrap=True)
    say.print(f"\nData, configuration and recording stay in {stage}", markup=False, soft_wrap=True)
    unanswered = sum(calls.unanswered for calls in counts.methods.values() if calls.method == "tools/call")
    if (counts.cancelled, unanswered) != (1, 0):
        wrong.append(
            f"one call to be cancelled and all others answered, not {counts.cancelled} and {unanswered} without"
        )
    return wrong


def how_to_call(program: str) -> str:
    """What to type to run the program that runs now: its path where its name alone would not be found."""
    return program if Path(program).name == "tieline" and shutil.which("tieline") is None else "tieline"


def _toml(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
