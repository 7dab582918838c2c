"""What commands share about their arguments: a cheap parser for the plain case, and finding the file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gateway.cli.output import BAD_INPUT, CliError, tell_warning
from gateway.config import Config, load
from gateway.config.load import load_any
from gateway.config.places import CANDIDATES, found_config
from recordings.spelling import spelled

if TYPE_CHECKING:
    from pathlib import Path


def plain(
    arguments: Sequence[str], *, flags: Sequence[str], values: Sequence[str], command: bool = False
) -> tuple[Mapping[str, str], list[str]] | None:
    """Split arguments into options and the rest; None if anything is not as plain as `--name value`.

    With `command`, the rest begins with the first word that is no option, or after `--`, and is not looked
    at.
    """
    options: dict[str, str] = {}
    rest: list[str] = []
    words = list(arguments)
    while words:
        word = words.pop(0)
        if word == "--":
            return options, rest + words
        name, equals, value = word.partition("=")
        if not word.startswith("-"):
            rest.append(word)
            if command:
                return options, rest + words
        elif name in options or (name in flags and equals) or name not in (*flags, *values):
            return None
        elif name in flags:
            options[name] = ""
        elif equals:
            options[name] = value
        elif words and not words[0].startswith("-"):
            options[name] = words.pop(0)
        else:
            return None
    return options, rest


def config_path(given: Path | str | None) -> str:
    """Return the configuration file that was named, or the one that lies in the working directory.

    Raises:
        CliError: If there is none.
    """
    if given is not None:
        path = spelled(str(given))
        if not os.path.exists(path):
            raise CliError(f"`{path}` does not exist", hint=_ABOUT_FILES, code=BAD_INPUT)
        if os.path.isdir(path):
            within = found_config(path)
            hint = f"Name the file in it: `{within}`" if within else _ABOUT_FILES
            raise CliError(f"`{path}` is a directory", hint=hint, code=BAD_INPUT)
        return path
    found = found_config(os.getcwd())
    if found is None:
        raise CliError(f"there is no {' or '.join(f'`{n}`' for n in CANDIDATES[:2])} here", hint=_ABOUT_FILES)
    return found


def any_config(given: Path | str | None) -> Config:
    """Read the configuration that was named or that lies here; an empty one where none does.

    Raises:
        CliError: If the one that was named is not there.
    """
    return load_any(config_path(given) if given is not None else found_config(os.getcwd()))


def need_peers(config: Config, path: Path | str | None) -> None:
    """See that a configuration has something to serve.

    Raises:
        CliError: If it names no peers.
    """
    if not config.active_peers:
        hint = "Add a table `[peers.NAME]` with a `command` or a `url`"
        if path is None:
            hint = "Put one into `.pi/extensions/` or `~/.pi/agent/extensions/`; `tieline extensions show` tells more"
            raise CliError(
                "there are no extensions to serve, and no configuration", hint=hint, code=BAD_INPUT
            )
        raise CliError(f"`{path}` names no peers", hint=hint, code=BAD_INPUT)


_ABOUT_FILES = "Name a `tieline.toml`, or the JSON file with `mcpServers` of another client"


def load_config(given: Path | str | None, *, discovers: bool = False) -> Config:
    """Read the configuration, and say on stderr what in it does nothing.

    With `discovers`, or where it says so itself, the extensions that are there are peers of it; then no file need be
    there.
    """
    config = any_config(given) if discovers else load(config_path(given))
    for note in config.notes:
        tell_warning(note)
    if not (discovers or config.extensions.discover):
        return config
    from gateway.runtime.extension_files import look_around, with_extensions

    found = look_around(config)
    for sentence in found.sentences():
        tell_warning(sentence)
    return with_extensions(config, found)
