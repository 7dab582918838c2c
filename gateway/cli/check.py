"""`tieline check`: is the configuration right, and does every peer answer?"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.arguments import config_path, load_config, need_peers
from gateway.cli.options import ConfigArgument, JsonOption
from gateway.cli.output import BAD_INPUT, DONE, NO, console, counted, examples, print_json, table
from gateway.config import Config, ConfigError

if TYPE_CHECKING:
    from gateway.runtime.reports import PeerReport


def register(app: typer.Typer) -> None:
    """Add `check`."""

    @app.command(epilog=examples("tieline check", "tieline check .mcp.json --json", "tieline check --dry"))
    def check(
        config: ConfigArgument = None,
        dry: Annotated[bool, typer.Option("--dry", help="Read the file only; start nothing.")] = False,
        json: JsonOption = False,
    ) -> int:
        """Try each peer of a configuration once.

        Reads the file, connects to every peer, says which ones work, and ends them again. Ends with 1 if a
        peer does not, and with 3 if the file has mistakes.
        """
        path = Path(config_path(config))
        try:
            read = load_config(path)
            if read.has_telemetry:
                from gateway.telemetry.hub import need_extras

                need_extras(read)
        except ConfigError as error:
            if not json:
                raise
            print_json({"ok": False, "mistakes": error.mistakes})
            return BAD_INPUT
        need_peers(read, path)
        if dry:
            return _told_dry(path, read, json=json)
        reports = try_peers(read)
        if json:
            print_json({"ok": all(report.ok for report in reports), "peers": reports})
        else:
            show(reports)
        return DONE if all(report.ok for report in reports) else NO

    del check


def _told_dry(path: Path, config: Config, *, json: bool) -> int:
    if json:
        print_json({"ok": True, "peers": list(config.peers)})
    else:
        console().print(f"`{path}` is right: {counted(len(config.peers), 'peer')}", markup=False)
    return DONE


def try_peers(config: Config) -> list[PeerReport]:
    """Try each peer that is not disabled; shows on a terminal that this takes a moment."""
    from gateway.cli.reading import telling
    from gateway.serve import check

    names = ", ".join(config.active_peers)
    with telling(), console(stderr=True).status(f"trying {names}"):
        return list(asyncio.run(check(config)))


def show(reports: Sequence[PeerReport]) -> None:
    """Print a table of the peers, then what is wrong with those that failed."""
    from recordings.views import took

    rows = [
        (
            report.name,
            report.kind,
            "ok" if report.ok else "failed",
            report.server or "",
            report.version or "",
            str(len(report.tools)) if report.ok else "",
            "" if report.ready_ms is None else took(int(report.ready_ms * 1e6)),
        )
        for report in reports
    ]
    columns = ("peer", "kind", "result", "server", "protocol", "tools", "ready in")
    out = console()
    out.print(table(columns, rows, right=("tools", "ready in")))
    for report in reports:
        if not report.ok:
            out.print(f"\n{report.trouble}", markup=False)
            for line in report.last_words:
                out.print(f"  {report.name} | {line}", markup=False)
            if report.hint and report.hint not in report.trouble:
                out.print(f"hint: {report.hint}", markup=False)
