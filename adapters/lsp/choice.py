"""Which servers a command line means: presets, presets with another command, and servers of a file of one's own.

Owns the reading of both, and saying what is wrong with them. Starts nothing.
"""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec

from adapters.lsp.readiness import Wait
from adapters.lsp.servers import PRESETS, Server


class ChoiceError(Exception):
    """What is wrong with what was said, in a sentence."""


class Entry(msgspec.Struct, forbid_unknown_fields=True):
    """A server in a file, under its name. What a preset of that name says stands where nothing else does."""

    command: list[str] | None = None
    languages: dict[str, str] | None = None
    settings: dict[str, Any] | None = None
    wait: Wait | None = None
    sign: str | None = None
    configs: list[str] | None = None
    push_quiet_s: float | None = None


def choose(names: Sequence[str], file: str | None) -> list[Server]:
    """The servers of `--server NAME` or `--server NAME=COMMAND`, in that order; all of the file where none is named.

    Raises `ChoiceError`.
    """
    known = PRESETS | (_read(file) if file else {})
    wanted = list(names) or (list(_read(file)) if file else ["basedpyright"])
    found: dict[str, Server] = {}
    for each in wanted:
        name, _, command = each.partition("=")
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]}? There" if near else "; there"
            raise ChoiceError(f"--server {name}: not known{hint} are {', '.join(sorted(known))}")
        if name in found:
            raise ChoiceError(f"--server {name} is there twice")
        found[name] = _with(known[name], Entry(command=shlex.split(command))) if command else known[name]
    return list(found.values())


def _read(file: str) -> dict[str, Server]:
    try:
        tables = tomllib.loads(Path(file).read_text("utf-8"))
        entries = msgspec.convert(tables, dict[str, Entry])
    except OSError as fault:
        raise ChoiceError(f"--servers {file}: {fault.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as fault:
        raise ChoiceError(f"--servers {file}: {fault}") from None
    return {name: _made(file, name, entry) for name, entry in entries.items()}


def _made(file: str, name: str, entry: Entry) -> Server:
    for member, word in (("command", "[...]"), ("languages", '{ ".x" = "x" }')):
        if name not in PRESETS and not getattr(entry, member):
            raise ChoiceError(f"--servers {file}: [{name}] needs {member} = {word}")
    if (entry.wait or "") in ("registration", "status") and not entry.sign:
        raise ChoiceError(
            f"--servers {file}: [{name}] wait = {entry.wait!r} needs sign, the method that tells"
        )
    return _with(PRESETS.get(name) or Server(name=name, program="", languages={}), entry)


def _with(server: Server, entry: Entry) -> Server:
    said = {key: value for key, value in msgspec.structs.asdict(entry).items() if value is not None}
    if "configs" in said:
        said["configs"] = tuple(said["configs"])
    if command := said.pop("command", None):
        said |= {"program": command[0], "arguments": tuple(command[1:]), "script": None}
    return msgspec.structs.replace(server, **said)
