"""The file `extension.json`: how one extension is started, and what it wants to be allowed.

Owns its members and what is wrong with them, told with file, line and key as of a configuration. Whether what it wants
may be, and whether it may start at all, is not decided here. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from posixpath import dirname, isabs, join, normpath
from typing import Annotated, Any, Final, Literal, TypeAlias, cast

import msgspec
from msgspec import Meta

from gateway.config.checks import may_be_called
from gateway.config.lines import json_lines
from gateway.config.mistakes import ConfigError, KeyPath, Mistake, Report, did_you_mean
from gateway.config.peer import PeerConfig
from gateway.config.reading import as_is, fields_of, read

FILE: Final = "extension.json"

Check: TypeAlias = Callable[["ExtensionManifest"], "list[tuple[KeyPath, str]]"]
"""What is wrong with the capabilities that a manifest states: places, and ends of sentences."""


class ExtensionManifest(msgspec.Struct, frozen=True, kw_only=True):
    """What `extension.json` says."""

    name: Annotated[str, Meta(description="What the extension is called, as a peer is.")]
    version: Annotated[str, Meta(description="Its version, for people.", min_length=1, max_length=64)]
    command: Annotated[list[str], Meta(description="The program and its arguments; or the program as text.")]
    description: Annotated[str, Meta(description="What it does, in a line.")] = ""
    args: Annotated[list[str], Meta(description="Arguments of a `command` that is text.")] = []
    env: Annotated[
        dict[str, str], Meta(description="Environment variables for its process, as they are.")
    ] = {}
    cwd: Annotated[str, Meta(description="Where it runs, seen from the manifest's folder.")] = "."
    dialect: Annotated[Literal["pi"], Meta(description="What it speaks.")] = "pi"
    capability_manifest: Annotated[
        dict[str, Any] | None, Meta(description="What it wants to be allowed, `pi.ext.cap.v1`.")
    ] = None
    capabilities: Annotated[list[str], Meta(description="The same as a plain list, without limits.")] = []

    def peer(self, path: str) -> PeerConfig:
        """Return the peer that it describes where it lies at `path`, an absolute one."""
        folder = dirname(path)
        program, *arguments = self.command
        if "/" in program and not isabs(program):
            program = normpath(join(folder, program))
        return PeerConfig(
            command=[program, *arguments],
            dialect="pi",
            env=self.env,
            cwd=normpath(join(folder, self.cwd)),
            start="eager",
            wants=self.wants,
        )

    @property
    def wants(self) -> dict[str, Any] | None:
        """What it states of capabilities, as a `register` would; None where it states nothing."""
        if self.capability_manifest is not None:
            return {"capability_manifest": self.capability_manifest}
        return {"capabilities": self.capabilities} if self.capabilities else None

    def __repr__(self) -> str:
        """Shows no variable and no argument, since any of them may hold a secret."""
        return f"ExtensionManifest(name={self.name!r}, version={self.version!r})"


def read_extension(data: bytes, path: str, check: Check) -> tuple[ExtensionManifest, list[str]]:
    """Read the bytes of a manifest that lies at `path`; return it, and what in it does nothing, in sentences.

    Raises:
        ConfigError: With every mistake in it.
    """
    try:
        text = data.decode("utf-8-sig")
        document: object = json.loads(text)
    except UnicodeDecodeError as error:
        raise ConfigError([Mistake(path, None, "", f"is not UTF-8 at byte {error.start}")]) from error
    except json.JSONDecodeError as error:
        why = f"is not valid JSON: {error.msg} (column {error.colno})"
        raise ConfigError([Mistake(path, error.lineno, "", why)]) from error
    except (RecursionError, ValueError) as error:
        raise ConfigError(
            [Mistake(path, None, "", "is not valid JSON: too deep, or too long a number")]
        ) from error
    if not isinstance(document, dict):
        raise ConfigError([Mistake(path, None, "", "must hold one JSON object")])
    report = Report(file=path, lines=partial(json_lines, text))
    table = _plain(cast(dict[str, object], document), report)
    manifest = read(ExtensionManifest, table, (), report, as_is)
    if manifest is not None:
        _check(manifest, report)
        for place, fault in check(manifest):
            report.mistake(place, fault)
    if manifest is None or report.mistakes:
        raise ConfigError(report.mistakes)
    return manifest, report.notes


def _plain(document: dict[str, object], report: Report) -> dict[str, object]:
    """Leave out what is another program's, and make one list of `command` and `args`."""
    known = fields_of(ExtensionManifest)
    table: dict[str, object] = {}
    for key, value in document.items():
        # What is only like a key of ours is a slip; what is not may be meant for others.
        if key in known or did_you_mean(key, known):
            table[key] = value
        else:
            report.note((key,), "is not known here, and does nothing")
    command, args = table.get("command"), table.get("args")
    if isinstance(command, str) and command:
        given = cast(list[object], args) if isinstance(args, list) else []
        table["command"] = [command, *given]
        if " " in command.strip() and not given:
            words = ", ".join(json.dumps(word) for word in command.split())
            report.mistake(("command",), f"is run without a shell; write `[{words}]`")
    elif args:
        report.mistake(("args",), "belongs to a `command` that is text")
    return table


def _check(manifest: ExtensionManifest, report: Report) -> None:
    if not may_be_called(manifest.name):
        report.mistake(("name",), "must have up to 64 letters, digits, `_` and `-`")
    if not manifest.command or not manifest.command[0]:
        report.mistake(("command",), "must name a program")
    if any("\0" in word for word in (*manifest.command, manifest.cwd)):
        report.mistake(("command",), "may hold no NUL")
    for name, value in manifest.env.items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or "\0" in value:
            report.mistake(("env", name), "is not the name and value of a variable")
