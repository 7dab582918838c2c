"""The run behind `tieline verify`: the live session, recorded, and its comparison with the first one."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.cli.output import BAD_INPUT, DONE, NO, CliError, counted, print_json, write_file
from gateway.cli.reading import bar, telling
from gateway.cli.tones import show

if TYPE_CHECKING:
    from gateway.config import Config
    from recordings.drift import Severity
    from recordings.held import Source
    from recordings.reader import Recording

INCOMPLETE = 2
MOST_NAMED = 5


def run_verify(
    source: Recording,
    live: Config,
    *,
    out: Path | None,
    timeout_s: float,
    fail_on: str,
    junit: Path | None,
    json: bool,
) -> int:
    """Play the recorded core against live peers, print the drift, and return the exit code."""
    from gateway.cli.rule_files import profiles_for
    from recordings.compare import compare
    from recordings.drift import drift_json, drift_junit, drift_lines, drifts_of
    from recordings.reader import open_recording

    if out is not None and out.exists():
        raise CliError(f"`{out}` exists already", hint="Name a new directory with `--out`")
    kept = Path(tempfile.mkdtemp(prefix="tieline-verify-")) if out is None else out.absolute().parent
    target = kept / "live" if out is None else out.absolute()
    try:
        unanswered = play(source, live, target, timeout_s=timeout_s)
        with telling():
            made = open_recording(target)
            profile, theirs = profiles_for(source, made)
            found = compare(source, made, profile, other_profile=theirs)
        drifts = drifts_of(found, unanswered=unanswered)
    finally:
        if out is None:
            shutil.rmtree(kept, ignore_errors=True)
    if junit is not None:
        write_file(junit, drift_junit(drifts, str(source.path)))
    if json:
        print_json(drift_json(drifts, str(source.path)))
    else:
        show(drift_lines(drifts, str(source.path)))
    severity: Severity = fail_on  # pyright: ignore[reportAssignmentType] - the option has been checked
    if drifts.fails(severity):
        return NO
    return INCOMPLETE if drifts.unanswered else DONE


def play(source: Recording, live: Config, target: Path, *, timeout_s: float) -> tuple[int, ...]:
    """Record a session of the recorded core with live peers; return the requests that were left unanswered."""
    from recordings.sources import source_of

    return play_source(
        source_of(source),
        live,
        target,
        transport=source.header.core.transport if source.header.core is not None else "stdio",
        dialect=source.header.core.dialect if source.header.core is not None else "mcp",
        transparent=bool(source.header.settings.get("transparent")),
        timeout_s=timeout_s,
        never=[name for name, facts in source.header.peers.items() if not facts.version],
    )


def play_source(
    source: Source,
    live: Config,
    target: Path,
    *,
    transport: str,
    transparent: bool,
    timeout_s: float,
    never: Collection[str] = (),
    dialect: str = "mcp",
) -> tuple[int, ...]:
    """As `play`, of any source of frames, over the transport that its core had and in the dialect that it spoke.

    A live server that cannot be reached is an error, but for those that could `never` be, when it was recorded.
    """
    from msgspec.structs import replace

    from gateway.cli.loop import run
    from gateway.config import ServeOptions
    from gateway.serve import play_core

    options = ServeOptions(record_dir=target, is_one_recording=True, is_transparent=transparent)
    # Sessions that the recorded agent was in are somebody's: extensions get one that lasts as long as this.
    unkept = replace(live.extensions, keep_sessions=False)
    config = replace(live, record=replace(live.record, enabled=True), extensions=unkept)
    with telling(), bar("verifying") as shown:
        verifying = run(
            play_core(
                config,
                options,
                source,
                transport=transport,
                dialect=dialect,
                timeout_s=timeout_s,
                progress=shown,
                waiting=partial(_tell_waiting, timeout_s),
            )
        )
    for name, why in verifying.unreached.items():
        if name not in never:
            raise CliError(f"the live server cannot be reached: {why}", code=BAD_INPUT)
    return tuple(verifying.unanswered)


def _tell_waiting(timeout_s: float, calls: list[str], waited_s: float) -> None:
    """Say what a live server has not answered; a message from it begins the time anew."""
    from recordings.views import printable

    more = f", and {len(calls) - MOST_NAMED} more" if len(calls) > MOST_NAMED else ""
    sys.stderr.write(
        f"note: {waited_s:g} s without an answer, of {timeout_s:g} s that are waited; "
        f"{counted(len(calls), 'request')} in flight: {printable(', '.join(calls[:MOST_NAMED]))}{more}\n"
    )
    sys.stderr.flush()
