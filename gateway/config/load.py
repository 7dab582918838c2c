"""Reads a configuration file, `tieline.toml` or another client's JSON: a `Config`, or all its mistakes."""

from __future__ import annotations

import os
import re
from codecs import BOM_UTF8
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, cast

import msgspec

from gateway.config.checks import HEADER_NAME, check
from gateway.config.mistakes import ConfigError, Mistake, Report
from gateway.config.model import Config
from gateway.config.peer import PeerConfig
from gateway.config.reading import fields_of, read
from gateway.config.references import Resolver, secrets_in
from recordings.spelling import absolute, spelled

if TYPE_CHECKING:
    from pathlib import Path

Table = dict[str, object]

PATIENCE_S = 120.0
"""How long the one peer of `tieline record` may take to be ready: more than any client waits for it, since its
program may have to be downloaded first."""


def load_any(path: Path | str | None) -> Config:
    """As `load`; where there is no file, a configuration of nothing, for extensions that are found to be put into."""
    return load(path) if path is not None else Config()


def load(path: Path | str, *, environ: Mapping[str, str] = os.environ) -> Config:
    """Read the file at `path`; what ends in `.json` is another client's.

    Raises:
        ConfigError: With every mistake in it; also when it cannot be read at all.
    """
    try:
        with open(path, "rb") as file:
            text = file.read().removeprefix(BOM_UTF8).decode()
    except OSError as error:
        raise ConfigError([Mistake(str(path), None, "", f"cannot be read: {error.strerror}")]) from error
    except UnicodeDecodeError as error:
        why = f"is not UTF-8 at byte {error.start}"
        raise ConfigError([Mistake(str(path), None, "", why)]) from error
    return parse(text, path=path, environ=environ)


def parse(text: str, *, path: Path | str, environ: Mapping[str, str]) -> Config:
    """Make a `Config` of a file's text. `path` says of which kind it is, and where relative paths begin."""
    report = Report(file=str(path))
    source = absolute(str(path))
    directory = os.path.dirname(source)
    foreign = os.path.splitext(source)[1] == ".json"
    document = _client_document(text, report) if foreign else _toml_document(text, report)
    resolver = Resolver(environ=environ, directory=directory, report=report, unused=_disabled(document))
    if foreign:
        resolver.predefined = _predefined(directory)
    config = read(Config, document, (), report, resolver.prepare)
    check(report)
    if config is None or report.mistakes:
        raise ConfigError(report.mistakes)
    return msgspec.structs.replace(
        config if foreign else _with_cwd(config, directory),
        source=source,
        notes=tuple(report.notes),
        secrets=resolver.secrets,
    )


def for_one_peer(
    *,
    command: list[str] | None = None,
    url: str | None = None,
    headers: Sequence[str] = (),
    environ: Mapping[str, str] = os.environ,
) -> Config:
    """Return what `tieline record` runs: one peer that sees the environment as if we were not there.

    `headers` are lines `Name: value`; `${VAR}` in them is replaced, and what it holds is secret.

    Raises:
        ConfigError: If the URL or a header cannot be used.
    """
    report = Report(file="")
    given = _headers(headers, report)
    resolver = Resolver(environ=environ, directory=os.getcwd(), report=report)
    resolver.every_variable_is_secret = True
    resolved: object = (
        resolver.prepare(fields_of(PeerConfig)["headers"], given, ("headers",)) if given else {}
    )
    kind = "sse" if url and re.search(r"/sse/?(\?|$)", url) else None
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", _peer_name(command, url)).strip("-") or "peer"
    inherit = ["*"] if command else list[str]()
    peer = PeerConfig(
        command=command or [],
        url=url,
        type=kind,
        inherit_env=inherit,
        headers=cast(dict[str, str], resolved),
        start="eager",
        start_timeout_s=PATIENCE_S,
    )
    config = Config(peers={name: peer})
    report.parts[("peers", name)] = peer
    check(report)
    if report.mistakes:
        raise ConfigError(_as_options(mistake) for mistake in report.mistakes)
    secrets = set[str]().union(*(secrets_in(key, value) for key, value in environ.items()))
    secrets |= secrets_in("", url or "") | resolver.secrets
    return msgspec.structs.replace(config, secrets=frozenset(secrets))


def _as_options(mistake: Mistake) -> Mistake:
    """Name the option of the command line where a key of a file would be named."""
    key = next((option for part, option in _OPTIONS.items() if f".{part}" in mistake.key), mistake.key)
    return Mistake("", None, key, mistake.message)


_OPTIONS = {"url": "--url", "type": "--url", "headers": "--header"}


def _headers(lines: Sequence[str], report: Report) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not HEADER_NAME.fullmatch(name):
            # The line itself may hold a secret.
            report.mistake(("--header",), "must be `Name: value`")
        elif name.lower() in map(str.lower, headers):
            report.mistake(("--header",), f"gives `{name}` twice")
        headers[name] = value.strip()
    return headers


def _peer_name(command: list[str] | None, url: str | None) -> str:
    if url:
        return re.sub(r"^\w+://(?:[^@/]*@)?", "", url).split("/")[0].split(":")[0]
    # What follows is code, and no name; it may hold anything.
    named = takewhile(lambda word: word not in _CODE_FOLLOWS, command or [])
    # Nor is a name what may be an option, a variable with its value, or an address.
    words = [
        os.path.basename(spelled(word))
        for word in named
        if re.fullmatch(r"[^-=:;(){}'\"$|<>\n][^=:;(){}'\"$|<>\n]{,99}", word)
    ]
    return next((word for word in words if word not in _RUNNERS), words[0] if words else "peer")


_CODE_FOLLOWS = frozenset(("-c", "-e", "-E", "--eval", "--command", "-lc", "-ic", "eval"))
_RUNNERS = frozenset(
    (
        *("npx", "uvx", "uv", "run", "node", "python", "python3", "bunx", "bun", "deno", "exec", "tool"),
        *("sh", "bash", "zsh", "env", "pipx", "pnpm", "dlx", "yarn"),
    )
)


def _toml_document(text: str, report: Report) -> Table:
    from gateway.config.documents import toml_document

    document = toml_document(text, report)
    for name, peer in _tables(document.get("peers")).items():
        _join_args(peer, name, report)
    return document


def _client_document(text: str, report: Report) -> Table:
    import json

    from gateway.config.clients import from_client, peers_at
    from gateway.config.lines import json_lines, plain_json

    plain = plain_json(text)
    try:
        document: object = json.loads(plain)
    except json.JSONDecodeError as error:
        why = f"is not valid JSON: {error.msg} (column {error.colno})"
        raise ConfigError([Mistake(report.file, error.lineno, "", why)]) from error
    except RecursionError as error:
        raise ConfigError([Mistake(report.file, None, "", "is not valid JSON: too deep")]) from error
    report.lines = partial(json_lines, plain)
    root = peers_at(cast(Table, document)) if isinstance(document, dict) else None
    if root is None:
        raise ConfigError([Mistake(report.file, None, "", "has neither `mcpServers` nor `servers`")])
    report.peers_at = root
    peers = from_client(cast(Table, document), report)
    for name, peer in _tables(peers.get("peers")).items():
        _join_args(peer, name, report)
    return peers


def _tables(value: object) -> dict[str, Table]:
    entries = cast(Table, value).items() if isinstance(value, dict) else ()
    return {name: cast(Table, entry) for name, entry in entries if isinstance(entry, dict)}


def _join_args(peer: Table, name: str, report: Report) -> None:
    """Make one list of `command = "x"` and `args = […]`."""
    command, args = peer.get("command"), peer.pop("args", None)
    path = ("peers", name)
    if args is not None and not (
        isinstance(args, list) and all(isinstance(arg, str) for arg in cast(list[object], args))
    ):
        report.mistake((*path, "args"), "must be a list of text")
        args = None
    if isinstance(command, str):
        peer["command"] = [command, *cast(list[str], args or [])]
        if args is None and " " in command.strip() and report.peers_at == ("peers",):
            words = ", ".join(f'"{word}"' for word in command.split())
            report.mistake((*path, "command"), f"is run without a shell; write `command = [{words}]`")
    elif args and (command or peer.get("url") or peer.get("unix")):
        report.mistake((*path, "args"), "belongs to a `command` that is text")


def _disabled(document: Table) -> frozenset[str]:
    return frozenset(n for n, peer in _tables(document.get("peers")).items() if peer.get("disabled") is True)


def _predefined(place: str) -> dict[str, str]:
    from pathlib import Path

    directory = Path(place)
    folder = directory.parent if directory.name in {".vscode", ".cursor"} else directory
    return {
        "workspaceFolder": str(folder),
        "workspaceFolderBasename": folder.name,
        "userHome": str(Path.home()),
        "pathSeparator": os.sep,
        "/": os.sep,
    }


def _with_cwd(config: Config, directory: str) -> Config:
    """Let peers run where the file lies, so that it means the same wherever the gateway was started."""
    peers = {
        name: msgspec.structs.replace(peer, cwd=directory) if peer.command and peer.cwd is None else peer
        for name, peer in config.peers.items()
    }
    return msgspec.structs.replace(config, peers=peers)
