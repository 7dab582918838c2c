"""`tieline conformance`: fixtures out of recordings, and services held against them.

Owns the options, the files and the exit codes. What a fixture is, and what counts as the same, is
`recordings.fixtures`' business.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from xml.etree import ElementTree

import typer

from gateway.cli.options import JsonOption, RecordingArgument
from gateway.cli.output import (
    BAD_INPUT,
    DONE,
    NO,
    CliError,
    ensure_writable,
    examples,
    make_folder,
    print_json,
    write_file,
)
from gateway.cli.reading import opened

if TYPE_CHECKING:
    from gateway.config import Config
    from recordings.fixtures import Failure, Fixture
    from recordings.profile import Profile
    from recordings.reader import Recording
    from recordings.report import Line

LOGS = Path("logs")


def register(app: typer.Typer) -> None:
    """Add `conformance capture` and `conformance check`."""
    about = "Hold services against fixtures made of recordings."
    family = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=about)

    @family.command(epilog=examples("tieline conformance capture session/ --out fixtures/files.json"))
    def capture(
        recording: RecordingArgument,
        out: Annotated[
            Path, typer.Option("--out", "-o", metavar="FILE", help="The fixture, named after its scenario.")
        ],
    ) -> int:
        """Make a fixture of a recorded session.

        It holds each request with its answer, `"compare": "exact"` where that holds nothing volatile, else
        `"normalised"`, to be changed by hand; and the session's extension log, normalised.
        """
        from recordings.fixtures import encoded

        if out.exists():
            raise CliError(
                f"`{out}` is there already", hint="It may have been edited: remove it, or name another one"
            )
        fixture = captured(opened(recording), out.stem)
        make_folder(out.parent)
        write_file(out, encoded(fixture))
        exact = sum(one.compare == "exact" for one in fixture.requests)
        rest = len(fixture.requests) - exact
        typer.echo(f"{out}: {len(fixture.requests)} requests, {exact} exact, {rest} normalised", err=True)
        return DONE

    @family.command(
        epilog=examples(
            "tieline conformance check fixtures/*.json -- npx -y some-server",
            "tieline conformance check fixtures/*.json --config tieline.toml --junit conformance.xml",
        )
    )
    def check(
        words: Annotated[
            list[str],
            typer.Argument(metavar="FIXTURES... [-- COMMAND...]", help="Fixtures, and the live server."),
        ],
        *,
        config: Annotated[Path | None, typer.Option(help="Configuration of the live services.")] = None,
        logs: Annotated[
            Path, typer.Option(metavar="DIR", help="Where the normalised log of each scenario is written.")
        ] = LOGS,
        timeout: Annotated[float, typer.Option(help="Seconds to wait for a live answer.", min=0.1)] = 30.0,
        junit: Annotated[
            Path | None, typer.Option(metavar="FILE", help="Write the outcome as JUnit XML.")
        ] = None,
        json: JsonOption = False,
    ) -> int:
        """Send the requests of fixtures to live services, and compare.

        Answers are compared byte for byte, or normalised, as each fixture says; log entries by event and correlation
        ids. Effects are real. Ends with 0 if all is the same, 1 if not, 3 if a fixture cannot be used
        or a live server cannot be reached.
        """
        paths, command = _split(words)
        if junit is not None:
            ensure_writable(junit, makes=logs)
        outcomes = [
            checked(fixture, profile, live, logs=logs, timeout_s=timeout)
            for fixture, profile, live in _prepared(paths, command, config)
        ]
        _tell(outcomes, junit=junit, json=json)
        return NO if any(failures for _, failures in outcomes) else DONE

    app.add_typer(family, name="conformance")
    del capture, check


def _split(words: Sequence[str]) -> tuple[list[Path], list[str]]:
    """Fixtures come first; the command begins with the first word that names none."""
    count = next((place for place, word in enumerate(words) if not word.endswith(".json")), len(words))
    if not count:
        raise CliError("no fixture is named", hint="A fixture is a file that ends with `.json`")
    return [Path(word) for word in words[:count]], list(words[count:])


def _prepared(
    paths: Sequence[Path], command: list[str], config: Path | None
) -> list[tuple[Fixture, Profile, Config]]:
    """Every fixture is read before the first service is asked."""
    from gateway.cli.rule_files import rules_for
    from gateway.cli.verify import live_config
    from recordings.fixtures import FixtureError, decoded

    found: list[tuple[Fixture, Profile, Config]] = []
    for path in paths:
        try:
            fixture = decoded(path.read_bytes(), str(path))
        except (OSError, FixtureError) as error:
            why = (
                str(error)
                if isinstance(error, FixtureError)
                else f"`{path}` cannot be read: {error.strerror}"
            )
            raise CliError(why, hint="Make one with `tieline conformance capture`", code=BAD_INPUT) from error
        live = live_config(fixture.peers, command, config, None, f"the fixture `{path}`")
        found.append((fixture, rules_for(path), live))
    return found


def captured(source: Recording, scenario_id: str) -> Fixture:
    """A recorded session as a fixture, with its log."""
    import msgspec

    from gateway.cli.rule_files import profiles_for
    from recordings.fixtures import fixture_of, requests_of
    from recordings.sources import source_of

    profile, _ = profiles_for(source)
    header, frames = source.header, source_of(source)
    fixture = fixture_of(
        frames,
        profile,
        scenario_id,
        transport=header.core.transport if header.core is not None else "stdio",
        transparent=bool(header.settings.get("transparent")),
        peers=list(header.peers),
    )
    log = _log(source, fixture, profile, requests_of(frames))
    fixture.log = [msgspec.Raw(msgspec.json.encode(entry)) for entry in log]
    return fixture


def _log(source: Recording, fixture: Fixture, profile: Profile, seqs: Sequence[int]) -> list[dict[str, Any]]:
    """The log of a recorded session as fixtures hold it."""
    import msgspec

    from gateway.protocol.log import line, normalised
    from gateway.telemetry.ledger import Writer, entries_of
    from recordings.fixtures import settled_log

    writer = Writer(scenario_id=fixture.scenario_id)
    entries = (msgspec.json.decode(line(entry), type=dict[str, Any]) for entry in entries_of(source, writer))
    cwd = str(Path.cwd())
    return settled_log((normalised(entry, cwd=cwd) for entry in entries), seqs, fixture, profile)


def checked(
    fixture: Fixture, profile: Profile, live: Config, *, logs: Path, timeout_s: float
) -> tuple[Fixture, list[Failure]]:
    """Play the core of a fixture against live services; write the log, and return what is otherwise."""
    import msgspec

    from gateway.cli.verified import play_source
    from recordings.fixtures import failures_of, log_failures, requests_of, source_of_fixture
    from recordings.reader import open_recording
    from recordings.sources import source_of

    kept = Path(tempfile.mkdtemp(prefix="tieline-conformance-"))
    try:
        play_source(
            source_of_fixture(fixture),
            live,
            kept / "live",
            transport=fixture.transport,
            transparent=fixture.transparent,
            timeout_s=timeout_s,
        )
        made = open_recording(kept / "live")
        frames = source_of(made)
        failures = list(failures_of(fixture, frames, profile))
        log = _log(made, fixture, profile, requests_of(frames))
    finally:
        shutil.rmtree(kept, ignore_errors=True)
    make_folder(logs)
    lines = b"".join(msgspec.json.encode(entry) + b"\n" for entry in log)
    write_file(logs / f"{fixture.scenario_id}.jsonl", lines)
    return fixture, failures + list(log_failures(fixture, log))


def _tell(outcomes: Sequence[tuple[Fixture, list[Failure]]], *, junit: Path | None, json: bool) -> None:
    import msgspec

    if junit is not None:
        write_file(junit, _junit(outcomes))
    if json:
        found = [
            {"scenario_id": fixture.scenario_id, "requests": len(fixture.requests), "failures": failures}
            for fixture, failures in outcomes
        ]
        print_json(msgspec.json.decode(msgspec.json.encode(found)))
        return
    from gateway.cli.tones import show

    show(lines_of(outcomes))


def lines_of(outcomes: Sequence[tuple[Fixture, list[Failure]]]) -> Iterator[Line]:
    from recordings.report import changes_text
    from recordings.views import printable

    for fixture, failures in outcomes:
        verdict = "DIFFERS" if failures else "SAME"
        counts = f"{len(fixture.requests)} requests, {len(fixture.log)} log entries, {len(failures)} differ"
        yield "bad" if failures else "good", f"{verdict}  {printable(fixture.scenario_id)}  {counts}"
        for one in failures:
            ids = " ".join(f"{name}={value}" for name, value in one.ids.items())
            yield "warn", printable(f"  {one.event}  {ids}  {one.what}")
            for line in changes_text(one.changes, indent=4):
                yield "plain", line


def _junit(outcomes: Sequence[tuple[Fixture, list[Failure]]]) -> str:
    suite = ElementTree.Element("testsuite", name="tieline conformance", errors="0")
    for fixture, failures in outcomes:
        for one in failures:
            ids = " ".join(f"{name}={value}" for name, value in one.ids.items())
            name = f"{one.event} {ids}".strip()
            case = ElementTree.SubElement(suite, "testcase", classname=fixture.scenario_id, name=name)
            where = " ".join(change.pointer or "/" for change in one.changes)
            ElementTree.SubElement(case, "failure", type=one.event, message=f"{one.what} {where}".strip())
        if not failures:
            name = f"{len(fixture.requests)} requests"
            ElementTree.SubElement(suite, "testcase", classname=fixture.scenario_id, name=name)
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(sum(len(failures) for _, failures in outcomes)))
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
