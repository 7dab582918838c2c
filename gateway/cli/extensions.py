"""`tieline extensions`: which Pi extensions there are, whether one is right, and which of a project may start."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from gateway.cli.arguments import any_config
from gateway.cli.options import ConfigArgument, JsonOption
from gateway.cli.output import BAD_INPUT, DONE, NO, CliError, console, counted, examples, print_json, table
from gateway.config import Config, ConfigError

if TYPE_CHECKING:
    from gateway.calls.pi.overview import Overview
    from gateway.config.discovery import Discovery, Found
    from gateway.config.extension_manifest import ExtensionManifest
    from gateway.runtime.reports import PeerReport

_SCOPES = {"config": "configuration", "project": "project", "user": "user"}


def register(app: typer.Typer) -> None:
    """Add `extensions show`, `extensions check` and `extensions trust`."""
    extensions = typer.Typer(
        no_args_is_help=True, rich_markup_mode=None, help="Find, check and trust Pi extensions."
    )

    @extensions.command(epilog=examples("tieline extensions show", "tieline extensions show --start --json"))
    def show(
        config: ConfigArgument = None,
        start: Annotated[
            bool, typer.Option("--start", help="Start each one, and show what it registers.")
        ] = False,
        json: JsonOption = False,
    ) -> int:
        """Show which extensions are found, and why one is not served.

        Looks where `tieline run --extensions` looks. With `--start`, what each registers is shown too, and what
        collides: tools, commands, hooks, shortcuts, flags, renderers, providers, capabilities. Ends with 1 if anything
        is broken.
        """
        read, found = look(config)
        return show_found(found, live=started(read, found) if start else None, json=json)

    @extensions.command(
        epilog=examples("tieline extensions check ./todo/extension.json", "tieline extensions check ./todo")
    )
    def check(
        path: Annotated[Path, typer.Argument(help="A manifest, or a folder with one or several.")],
        json: JsonOption = False,
    ) -> int:
        """Check manifests: each mistake with file, line and key.

        Starts nothing. Ends with 3 if there are mistakes.
        """
        return check_path(path, json=json)

    @extensions.command(
        epilog=examples("tieline extensions trust todo", "tieline extensions trust todo --yes")
    )
    def trust(
        names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Extensions of the project.")],
        config: Annotated[Path | None, typer.Option(help="`tieline.toml` of the project.")] = None,
        yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    ) -> int:
        """Let extensions start that a project brings with it.

        Shows what would run, and asks. It holds for the manifest and the files that its command names as they are now;
        once one of them changes, this has to be said again.
        """
        return trust_names(names, config, yes=yes)

    app.add_typer(extensions, name="extensions")
    del show, check, trust


def look(given: Path | None) -> tuple[Config, Discovery]:
    """Read the configuration, if there is one, and look for extensions."""
    from gateway.runtime.extension_files import look_around

    config = any_config(given)
    return config, look_around(config)


class Live(msgspec.Struct):
    """What came of starting them."""

    overview: Overview
    failed: list[PeerReport]


def started(config: Config, discovery: Discovery) -> Live:
    """Start every extension once, those that the configuration names itself too."""
    from gateway.calls.pi.overview import overview
    from gateway.calls.registered import Registered
    from gateway.cli.check import try_peers
    from gateway.runtime.extension_files import with_extensions

    whole = with_extensions(config, discovery)
    peers = {name: peer for name, peer in whole.active_peers.items() if peer.dialect == "pi"}
    reports = try_peers(msgspec.structs.replace(whole, peers=peers)) if peers else []
    registered = [
        (one.name, Registered(bytes(one.registered))) for one in reports if one.registered is not None
    ]
    return Live(overview(registered), [one for one in reports if not one.ok])


def show_found(discovery: Discovery, *, live: Live | None = None, json: bool) -> int:
    """Print what was found, and what it registers where it was started."""
    code = NO if discovery.broken or (live is not None and live.failed) else DONE
    if json:
        facts: dict[str, Any] = {
            "extensions": [_facts(one) for one in discovery.found],
            "mistakes": discovery.broken,
            "notes": discovery.notes,
        }
        if live is not None:
            facts["registered"] = live.overview.registrations
            facts["collisions"] = live.overview.collisions
            facts["failed"] = [{"name": one.name, "error": one.trouble} for one in live.failed]
        print_json(facts)
        return code
    out = console()
    if discovery.found:
        rows = [(o.name, o.manifest.version, _SCOPES[o.scope], o.status, o.path) for o in discovery.found]
        out.print(table(("name", "version", "from", "state", "manifest"), rows))
    else:
        out.print("no extensions")
    told = [f"`{one.name}` of `{one.path}` {one.why}" for one in discovery.found if one.why]
    told += [f"error: {mistake}" for mistake in discovery.broken]
    told += [f"note: {note}" for note in discovery.notes]
    told += list(_told(live)) if live is not None else []
    if told:
        out.print()
    for line in told:
        out.print(_visible(line), markup=False)
    return code


def _told(live: Live) -> Iterator[str]:
    for one in live.overview.registrations:
        yield f"{one.extension} {one.version}"
        for kind, names in one.parts():
            yield f"  {kind}: {', '.join(names)}"
        for problem in one.problems:
            yield f"  warning: {problem}"
    for collision in live.overview.collisions:
        yield f"warning: {collision}"
    for report in live.failed:
        yield f"error: {report.trouble}"
        yield from (f"  {report.name} | {line}" for line in report.last_words)


def _facts(one: Found) -> dict[str, Any]:
    manifest = one.manifest
    return {
        "name": one.name,
        "version": manifest.version,
        "description": manifest.description,
        "from": one.scope,
        "place": one.place,
        "manifest": one.path,
        "state": one.status,
        "why": one.why or None,
        "command": manifest.peer(one.path).command,
        "capabilities": manifest.capability_manifest or {"capabilities": manifest.capabilities},
    }


def check_path(path: Path, *, json: bool) -> int:
    """Print what is wrong with the manifests at a path."""
    from gateway.config.discovery import Place, discover
    from gateway.runtime.extension_files import Disk, capability_faults

    place = Place("config", "path", str(path.absolute()))
    found = discover([place], Disk(), check=capability_faults, trusted=_named)
    if json:
        print_json(
            {
                "ok": not found.broken,
                "extensions": [_facts(one) for one in found.found],
                "mistakes": found.broken,
            }
        )
        return BAD_INPUT if found.broken else DONE
    if found.broken:
        raise ConfigError(found.broken)
    out = console()
    for one in found.found:
        out.print(_visible(f"`{one.path}` is right: {one.name} {one.manifest.version}"), markup=False)
    for note in (*found.notes, *(f"{one.path}: `{one.name}` {one.why}" for one in found.found if one.why)):
        out.print(_visible(f"note: {note}"), markup=False)
    if not found.found:
        raise CliError(
            f"`{path}` holds no extension", hint="A manifest is called `extension.json`", code=BAD_INPUT
        )
    return DONE


def _named(path: str, manifest: ExtensionManifest, data: bytes) -> bool:
    del path, manifest, data
    return True


def trust_names(names: Sequence[str], config: Path | None, *, yes: bool) -> int:
    """Show what extensions of the project would run, and write down that they may, once that is confirmed."""
    from gateway.runtime.extension_files import pinned, trust

    read, discovery = look(config)
    del read
    mine = {one.name: one for one in discovery.found if one.scope == "project"}
    untrusted = {name: one for name, one in mine.items() if one.status == "untrusted"}
    for name in names:
        if name not in mine:
            known = ", ".join(f"`{n}`" for n in untrusted) or "none"
            hint = f"Not trusted so far: {known}"
            if discovery.broken:
                hint += "; `tieline extensions show` tells what is wrong with others"
            raise CliError(f"the project has no extension `{name}`", hint=hint)
    chosen = [untrusted[name] for name in dict.fromkeys(names) if name in untrusted]
    # As they are shown, and not as they are once somebody has read it.
    pins = [pinned(one) for one in chosen]
    for one, pin in zip(chosen, pins, strict=True):
        sys.stdout.write(_visible("\n".join((*_would_run(one, discovery), f"  is       {pin.hash}"))) + "\n")
    if not chosen:
        sys.stdout.write("nothing to do: trusted already\n")
        return DONE
    if not yes:
        if not sys.stdin.isatty():
            raise CliError("nobody is there to be asked", hint="Read what would run, then add `--yes`")
        if not typer.confirm(f"May {counted(len(chosen), 'extension')} start?"):
            return NO
    try:
        path = trust(pins)
    except OSError as error:
        raise CliError(f"it cannot be written down: {error.strerror}", code=BAD_INPUT) from error
    sys.stdout.write(f"trusted, in `{path}`: {', '.join(one.name for one in chosen)}\n")
    return DONE


def _would_run(one: Found, discovery: Discovery) -> list[str]:
    peer = one.manifest.peer(one.path)
    wanted = one.manifest.capability_manifest or one.manifest.capabilities
    wants = msgspec.json.encode(wanted).decode() if wanted else "not stated: what it registers once it runs"
    others = [each for each in discovery.found if each.name == one.name and each.status == "served"]
    return [
        f"{one.name} {one.manifest.version}, of {one.path}",
        f"  runs     {shlex.join(peer.command)}",
        f"  in       {peer.cwd}",
        f"  sets     {', '.join(peer.env) or 'no variables'}",
        f"  wants    {wants}",
        *(f"  instead of {each.path}" for each in others),
    ]


def _visible(text: str) -> str:
    from gateway.calls.accepted import visible

    return "\n".join(map(visible, text.split("\n")))
