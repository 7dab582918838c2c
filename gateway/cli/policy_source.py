"""Where the commands about policy take a policy from, and what is known about an extension that does not run.

Owns the reading of files that options name. What a policy or a fact means is decided elsewhere.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from gateway.cli.output import BAD_INPUT, CliError, tell_warning
from gateway.config import Config
from gateway.config.mistakes import Report

if TYPE_CHECKING:
    from gateway.config.peer import PeerConfig
    from gateway.policy.capability import Need
    from gateway.policy.decide import Facts
    from gateway.policy.manifest import Declaration
    from gateway.policy.model import Policy
    from gateway.runtime.host.identity import Program


def text_of(path: Path) -> str:
    """Return what stands in a file. Raises `CliError` where it cannot be read."""
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise CliError(f"`{path}` cannot be read: {why}", code=BAD_INPUT) from error


def policy_of(file: Path | None, config: Config) -> Policy:
    """The policy of a file of its own, or of a configuration; what does nothing in it is told on stderr."""
    from gateway.policy.policyfile import parse_policy, read_policy

    if file is not None:
        policy, notes = parse_policy(text_of(file), file=str(file))
    else:
        policy, notes = read_policy(config.extensions.policy, Report(file=config.source or "tieline"))
    for note in notes:
        tell_warning(note)
    return policy


def facts_of(
    extension: str,
    need: Need,
    config: Config,
    *,
    manifest: Path | None,
    signals: Sequence[str],
    has_ui: bool,
    grants: Path | None,
) -> tuple[Facts, str]:
    """What is known of a call of an extension that does not run, and the hash of the remembered answers."""
    from gateway.config.places import grants_file
    from gateway.policy.decide import Facts
    from gateway.runtime.host.authority import roots_of
    from gateway.runtime.host.authority import signals as measured

    peer = _peer(extension, config)
    declared = _declared(manifest, peer.wants if peer is not None else None, need)
    program = _program(extension, peer)
    weighed = dict(measured(declared, program)) | dict(map(_signal, signals))
    root = roots_of(config)[0]
    found = read_grants(grants or grants_file(config))
    remembered = found.remembered(
        extension, need, now=datetime.now(UTC), executable=program.executable, manifest=declared.hash,
        project=root.path, folds_case=root.folds_case,
    )  # fmt: skip
    facts = Facts(
        extension=extension, need=need, standing=declared.standing(need), remembered=remembered,
        signals=tuple(sorted(weighed.items())), has_ui=has_ui, folds_case=root.folds_case,
        executable=program.executable, manifest=declared.hash, project=root.path,
    )  # fmt: skip
    return facts, found.hash


def read_grants(path: Path) -> Any:
    """The remembered answers of a file. Raises `CliError` where it cannot be read."""
    from gateway.runtime.host.grant_file import GrantFile

    try:
        return GrantFile(path).read()
    except OSError as error:
        raise CliError(f"`{path}` cannot be read: {error.strerror or error}", code=BAD_INPUT) from error


def _peer(extension: str, config: Config) -> PeerConfig | None:
    """What the extension runs as: a peer of the configuration, or one that is found as `tieline run` finds it."""
    from gateway.runtime.extension_files import look_around

    if (peer := config.peers.get(extension)) is not None:
        return peer
    found = next((one for one in look_around(config).found if one.name == extension), None)
    return None if found is None else found.manifest.peer(found.path)


def _declared(path: Path | None, wants: dict[str, Any] | None, need: Need) -> Declaration:
    """What the extension declares: in a file, in its own manifest, or just what the call needs."""
    from gateway.policy.manifest import SCHEMA, Declaration, coarse, declaration

    if path is None and wants is not None:
        return declaration(wants)[0]
    if path is None:
        name = f"tool:{need.tool}" if need.capability == "tool" else need.capability
        sys.stderr.write(
            f"note: taken as declared: `{name}` and nothing else; what it registers once it runs counts as evidence, "
            "and remembered answers are bound to that. State it in its `extension.json`, or say it with `--manifest`\n"
        )
        return Declaration(coarse([name]))
    try:
        document: object = json.loads(text_of(path))
    except ValueError as error:
        raise CliError(f"`{path}` is not valid JSON: {error}", code=BAD_INPUT) from error
    if not isinstance(document, dict):
        raise CliError(f"`{path}` must be an object", code=BAD_INPUT)
    table = cast(dict[str, Any], document)
    found, mistakes = declaration({"capability_manifest": table} if table.get("schema") == SCHEMA else table)
    if mistakes is not None:
        tell_warning(f"`{path}` cannot be read, so it declares nothing: {mistakes}")
    return found


def _program(extension: str, peer: PeerConfig | None) -> Program:
    from gateway.runtime.host.identity import Program, Programs

    if peer is None:
        return Program("", 0)
    try:
        return Programs().of(peer.command, peer.url or peer.unix or "", peer.cwd)
    except OSError as error:
        tell_warning(f"the program of `{extension}` cannot be read: {error.strerror}: {error.filename}")
        return Program("", 0)


def _signal(given: str) -> tuple[str, int]:
    name, sign, value = given.partition("=")
    if not sign or not value.isdigit():
        raise CliError(
            f"`--signal {given}` is none",
            hint="Write `--signal unsigned=600`, in thousandths of the whole signal",
        )
    return name, int(value)


def need_from(
    capability: str,
    method: str | None,
    config: Config,
    *,
    paths: Sequence[str],
    hosts: Sequence[str],
    env: Sequence[str],
) -> Need:
    """What a call needs that is described by options: as if a connector had been asked for it."""
    from gateway.policy.capability import METHODS_OF, TOOL_MARK, Need
    from gateway.policy.hosts import HostError, host_of_url, with_port
    from gateway.policy.paths import PathError, Roots
    from gateway.policy.scope import KINDS
    from gateway.protocol.capabilities import CAPABILITIES, capability_of
    from gateway.runtime.host.authority import roots_of

    name, _, tool = capability.partition(":")
    if name not in CAPABILITIES or (tool and name != TOOL_MARK.rstrip(":")):
        raise CliError(
            f"`{capability}` is no capability", hint=f"There are {', '.join(CAPABILITIES)}, and tool:NAME"
        )
    if tool and (needed := capability_of("tool", {"name": tool})) != "tool":
        raise CliError(f"the tool `{tool}` needs `{needed}`", hint=f"Ask about `{needed}`, `--method tool`")
    usual = "fs" if name in ("read", "write") else name
    verb = method or usual
    if verb not in METHODS_OF[name]:
        raise CliError(
            f"`{name}` is never used through `{verb}`", hint=f"It is through {', '.join(METHODS_OF[name])}"
        )
    kind = KINDS.get(name)
    for option, given, of in (("--path", paths, "paths"), ("--host", hosts, "hosts"), ("--env", env, "env")):
        if given and of != kind:
            raise CliError(f"`{option}` says nothing of `{name}`")
    try:
        root, touched = Roots(roots_of(config)).relative(paths) if paths else ("", ())
        named = tuple(host_of_url(each) if "://" in each else _host(each, with_port) for each in hosts)
    except (HostError, PathError) as error:
        raise CliError(str(error)) from error
    return Need(name, verb, tool, root=root, paths=touched, hosts=named, env=tuple(env))


def _host(given: str, with_port: Any) -> str:
    host, colon, port = given.rpartition(":")
    if colon and port.isdigit():
        return with_port(host, int(port))
    return with_port(given, 443)
