"""`tieline tools`: what the peers offer, what of it was accepted, and what has changed since."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from gateway.cli.arguments import load_config, need_peers
from gateway.cli.check import try_peers
from gateway.cli.options import ConfigArgument, JsonOption, PeerOption
from gateway.cli.output import (
    BAD_INPUT,
    DONE,
    NO,
    CliError,
    console,
    counted,
    examples,
    grid,
    print_json,
    tell_warning,
    terminal_width,
)
from gateway.config import Config, accepted_file

if TYPE_CHECKING:
    from gateway.calls.accepted import Accepted, Difference
    from gateway.runtime.reports import PeerReport


def register(app: typer.Typer) -> None:
    """Add `tools list`, `tools diff` and `tools accept`."""
    about = "List, compare and accept peers' tools."
    tools = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=about)

    @tools.command("list", epilog=examples("tieline tools list", "tieline tools list --peer db --json"))
    def list_(config: ConfigArgument = None, peer: PeerOption = None, json: JsonOption = False) -> int:
        """List each peer's tools, and whether they were accepted."""
        read, accepted, reports = look(config, peer)
        return list_tools(reports, accepted, read, json=json)

    @tools.command(epilog=examples("tieline tools diff", "tieline tools diff --peer db"))
    def diff(config: ConfigArgument = None, peer: PeerOption = None, json: JsonOption = False) -> int:
        """Show how the tools differ from the accepted ones.

        Ends with 1 if any does.
        """
        _, accepted, reports = look(config, peer)
        return diff_tools(reports, accepted, json=json)

    @tools.command(epilog=examples("tieline tools accept", "tieline tools accept --peer db"))
    def accept(config: ConfigArgument = None, peer: PeerOption = None, json: JsonOption = False) -> int:
        """Accept the tools as they are offered now.

        Writes `.tieline/tools.lock.json` beside the configuration. A gateway that runs takes it over on SIGHUP.
        """
        read, accepted, reports = look(config, peer)
        return accept_tools(reports, accepted, accepted_file(read), json=json)

    app.add_typer(tools, name="tools")
    del list_, diff, accept


def look(path: Path | None, only: Sequence[str] | None) -> tuple[Config, Accepted, list[PeerReport]]:
    """Read the configuration and what was accepted for it, then ask the peers for their tools.

    Raises:
        CliError: As `accepted_of` and `offered`.
    """
    read = load_config(path)
    accepted = accepted_of(read)
    return read, accepted, offered(read, only)


def accepted_of(config: Config) -> Accepted:
    """Return what was accepted for this configuration.

    Raises:
        CliError: If the file is damaged or was edited.
    """
    from gateway.calls.accepted import AcceptedError
    from gateway.runtime.lockfile import read_accepted

    try:
        return read_accepted(config)
    except AcceptedError as error:
        raise CliError(str(error), hint=error.hint, code=BAD_INPUT) from error


def offered(config: Config, only: Sequence[str] | None) -> list[PeerReport]:
    """Ask the peers for their tools; one that does not answer is told on stderr and left out.

    Raises:
        CliError: If `only` names a peer that is not configured, or no peer answers.
    """
    import msgspec

    need_peers(config, Path(config.source or ""))
    for name in only or ():
        if name not in config.active_peers:
            known = ", ".join(f"`{n}`" for n in config.active_peers)
            raise CliError(f"there is no peer `{name}`", hint=f"The configuration names {known}")
    peers = {name: peer for name, peer in config.active_peers.items() if not only or name in only}
    reports = try_peers(msgspec.structs.replace(config, peers=peers))
    for report in reports:
        if not report.ok:
            tell_warning(report.trouble)
            for line in report.last_words:
                tell_warning(f"  {report.name} | {line}")
    answered = [report for report in reports if report.ok]
    if not answered:
        raise CliError("no peer answered", hint="Run `tieline check` to see why", code=NO)
    return answered


def list_tools(reports: Sequence[PeerReport], accepted: Accepted, config: Config, *, json: bool) -> int:
    """Print the tools of the peers with their state: `denied` is what the configuration does not let through."""
    from gateway.calls.accepted import is_accepted, visible

    states = {None: "new", True: "accepted", False: "changed"}
    tools = [
        {
            "peer": report.name,
            "tool": str(tool.get("name", "")),
            "state": states[is_accepted(accepted, report.name, tool)]
            if config.peers[report.name].tools.offers(str(tool.get("name", "")))
            else "denied",
            "description": str(tool.get("description", "")),
        }
        for report in reports
        for tool in report.tools
    ]
    if json:
        print_json(tools)
        return DONE
    rows = [
        {
            "peer": tool["peer"],
            "tool": visible(tool["tool"]),
            "state": tool["state"],
            "description": visible(_first_line(tool["description"])),
        }
        for tool in tools
    ]
    lines = grid(rows, width=terminal_width()) if rows else ["no tools"]
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return DONE


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def diff_tools(reports: Sequence[PeerReport], accepted: Accepted, *, json: bool) -> int:
    """Print what differs; return `NO` if anything does."""
    differences = _differences(reports, accepted)
    if json:
        print_json(differences)
    elif not differences:
        console().print("all tools are as they were accepted")
    else:
        for difference in differences:
            _print(difference)
    return NO if differences else DONE


def accept_tools(reports: Sequence[PeerReport], accepted: Accepted, path: Path, *, json: bool) -> int:
    """Write the lock file with what is offered now, and print what that changes."""
    from gateway.calls.accepted import accept
    from gateway.runtime.lockfile import write_accepted

    differences = _differences(reports, accepted)
    for report in reports:
        accepted = accept(accepted, report.name, report.tools)
    try:
        write_accepted(path, accepted)
    except OSError as error:
        raise CliError(f"`{path}` cannot be written: {error.strerror}", code=BAD_INPUT) from error
    if json:
        print_json({"file": str(path), "differences": differences})
        return DONE
    for difference in differences:
        _print(difference)
    tools = counted(sum(len(report.tools) for report in reports), "tool")
    console().print(f"accepted {tools} of {counted(len(reports), 'peer')} in `{path}`", markup=False)
    return DONE


def _differences(reports: Sequence[PeerReport], accepted: Accepted) -> list[Difference]:
    from gateway.calls.accepted import compare

    return [difference for report in reports for difference in compare(accepted, report.name, report.tools)]


def _print(difference: Difference) -> None:
    from gateway.calls.accepted import visible

    out = console()
    out.print(f"{difference.kind} {difference.peer}/{visible(difference.tool)}", markup=False)
    for line in difference.lines:
        out.print(f"  {line}", markup=False)
