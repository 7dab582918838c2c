"""The run behind `tieline verify`: the live session, recorded, and its comparison with the first one."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.cli.output import DONE, NO, CliError, print_json, write_file
from gateway.cli.reading import bar, telling
from gateway.cli.tones import show

if TYPE_CHECKING:
    from gateway.config import Config
    from recordings.drift import Severity
    from recordings.reader import Recording
    from recordings.script import Source

INCOMPLETE = 2


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
        transparent=bool(source.header.settings.get("transparent")),
        timeout_s=timeout_s,
    )


def play_source(
    source: Source, live: Config, target: Path, *, transport: str, transparent: bool, timeout_s: float
) -> tuple[int, ...]:
    """As `play`, of any source of frames and over the transport that its core had."""
    from msgspec.structs import replace

    from gateway.cli.loop import run
    from gateway.config import ServeOptions
    from gateway.serve import play_core

    options = ServeOptions(record_dir=target, is_one_recording=True, is_transparent=transparent)
    config = replace(live, record=replace(live.record, enabled=True))
    with telling(), bar("verifying") as shown:
        verifying = run(
            play_core(config, options, source, transport=transport, timeout_s=timeout_s, progress=shown)
        )
    return tuple(verifying.unanswered)
