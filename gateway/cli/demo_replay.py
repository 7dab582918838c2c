"""The end of the demo: what was recorded is played again, first without its agent and then without its peers.

Owns both replays and the lines that tell of them. The recording, the agent and the process are others' business.
"""

import os
import subprocess
from typing import TYPE_CHECKING

from gateway.cli.output import console

if TYPE_CHECKING:
    from mcp.client import ClientRequestContext
    from mcp_types import ElicitRequestParams, ElicitResult

    from gateway.cli.demo import Mode
    from gateway.cli.demo_agent import Event
    from recordings.divergence import Report
    from recordings.reader import Recording

LIMIT_S = 30.0


def play_again(recording: "Recording", mode: "Mode") -> list[str]:
    """Replay the demo's recording in both ways; return what came out otherwise."""
    import asyncio

    from gateway.replay.driven import driven
    from recordings.report import text

    say = console()
    say.print("Now the same once more, with no database, no files and no language server:", markup=False)
    found = driven(recording)
    _tell("the recorded agent", found)
    wrong = [] if not found.exit_code else [f"the recording to play again as it is, not\n{text(found)}"]
    try:
        return wrong + asyncio.run(_serve_again(recording, mode))
    except TimeoutError:
        return [*wrong, f"an end of the replay within {LIMIT_S:g} s"]


async def _serve_again(recording: "Recording", mode: "Mode") -> list[str]:
    """Let the agent play against the recording."""
    import asyncio

    import msgspec
    from mcp import Client

    from gateway.cli.demo_agent import Agent
    from gateway.cli.demo_gateway import GatewayProcess

    report = recording.path.with_name(f"{recording.path.name}-replay.json")
    agent = Agent(_silent)

    async def asked(context: "ClientRequestContext", params: "ElicitRequestParams") -> "ElicitResult":
        return agent.asked(params)

    gateway = await GatewayProcess.start(
        ["replay", str(recording.path), "--report", str(report)], os.environ, stderr=subprocess.DEVNULL
    )
    try:
        async with (
            asyncio.timeout(LIMIT_S),
            Client(gateway.connect(), mode=mode, elicitation_callback=asked) as client,
        ):
            await agent.play(client)
            gateway.look()
    finally:
        wrong = await gateway.end()
    if gateway.started:
        wrong.append(f"nothing to be started by a replay, not {len(gateway.started)} processes")
    if report.exists():
        found = msgspec.json.decode(report.read_bytes())
        _line("a live agent", "same" if not found["exit_code"] else "diverged", found["served"], found["of"])
        report.unlink()
    return [f"{what}, when replayed" for what in [*agent.wrong, *wrong]]


def _silent(event: "Event") -> None:
    """What the agent does was told when it did it first."""


def _tell(what: str, found: "Report") -> None:
    _line(what, "same" if not found.exit_code else "diverged", found.served, found.of)


def _line(what: str, outcome: str, served: int, of: int) -> None:
    console().print(f"  {what:18} {outcome:9} {served} of {of} frames", markup=False)
