"""Extensions as they lie on disk: read, decided about, made peers of a configuration; and the file of trusted ones.

Owns every file that discovery touches. Which of them counts is `config.discovery`'s.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from gateway.config.discovery import Discovery, Found, discover, places
from gateway.config.extension_manifest import ExtensionManifest, read_extension
from gateway.config.mistakes import ConfigError, KeyPath, Mistake
from gateway.config.model import Config
from gateway.config.places import project_dir, state_dir
from gateway.policy.manifest import ManifestError, coarse, read_manifest
from gateway.runtime.host.identity import Programs
from gateway.runtime.host.regular import others_may_write, read_regular, replace_private

MOST_BYTES: Final = 1024 * 1024
"""Of one manifest, package or file of settings."""
TRUSTED: Final = "extensions.trusted.json"


class Trusted(msgspec.Struct, frozen=True):
    """One extension of a project that somebody has said may start."""

    path: str
    """Of its manifest."""
    name: str
    hash: str
    """Of the manifest, and of the program with every file that its words name, as they were then."""


class _File(msgspec.Struct):
    trusted: list[Trusted] = []


class Disk:
    """The files of this machine, as `config.discovery` looks at them."""

    def kind(self, path: str) -> Literal["file", "folder", ""]:
        """Return what lies at a path."""
        try:
            mode = os.stat(path).st_mode
        except (OSError, ValueError):
            return ""
        return "folder" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else ""

    def names(self, path: str) -> list[str]:
        """Return the names in a folder."""
        return os.listdir(path)

    def read(self, path: str) -> bytes:
        """Return the bytes of a regular file of at most `MOST_BYTES`. Raises `OSError` otherwise."""
        return read_regular(path, MOST_BYTES)[0]


def agent_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the user's agent: `PI_CODING_AGENT_DIR`, or `~/.pi/agent`."""
    given = environ.get("PI_CODING_AGENT_DIR")
    return (Path(given).expanduser() if given else Path.home() / ".pi" / "agent").absolute()


def look_around(config: Config, environ: Mapping[str, str] = os.environ) -> Discovery:
    """Look for the extensions of a configuration.

    Raises:
        ConfigError: If the file of trusted ones cannot be used, since nobody then knows what may start.
    """
    trusted = {(one.path, one.hash) for one in read_trusted(environ)}
    extensions = config.extensions

    def is_trusted(path: str, manifest: ExtensionManifest, data: bytes) -> bool:
        return (path, fingerprint(path, manifest, data)) in trusted

    return discover(
        places(extensions.paths, str(project_dir(config)), str(agent_folder(environ))),
        Disk(),
        check=capability_faults,
        trusted=is_trusted,
        peers=config.peers,
        disable=extensions.disable,
    )


def with_extensions(config: Config, discovery: Discovery) -> Config:
    """Return the configuration with what was discovered as peers, after its own."""
    return msgspec.structs.replace(config, peers={**config.peers, **discovery.peers()})


def capability_faults(manifest: ExtensionManifest) -> list[tuple[KeyPath, str]]:
    """Return what is wrong with the capabilities that a manifest states."""
    found: list[tuple[KeyPath, str]] = []
    stated: tuple[tuple[str, Any], ...] = (
        ("capability_manifest", manifest.capability_manifest),
        ("capabilities", manifest.capabilities),
    )
    for key, value in stated:
        if value is None:
            continue
        try:
            coarse(value) if key == "capabilities" else read_manifest(value)
        except ManifestError as error:
            for pointer, fault in error.mistakes:
                parts = (int(part) if part.isdigit() else part for part in pointer.split("/")[1:])
                found.append(((key, *parts), fault))
    return found


def fingerprint(path: str, manifest: ExtensionManifest, data: bytes) -> str:
    """Return `sha256:` and the hex of a manifest's bytes, its command and every file that the command names."""
    peer = manifest.peer(path)
    try:
        program = Programs().of(peer.command, "", peer.cwd).executable
    except OSError as error:
        # It is another program once it can be read.
        program = f"unreadable: {error.errno}"
    told = hashlib.sha256(hashlib.sha256(data).digest() + program.encode())
    return f"sha256:{told.hexdigest()}"


# What of projects may start.


def trusted_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the file of trusted extensions."""
    return state_dir(environ) / TRUSTED


def read_trusted(environ: Mapping[str, str] = os.environ) -> list[Trusted]:
    """Return what may start; nothing where nobody ever said so.

    Raises:
        ConfigError: If the file cannot be read, can be written by others, or is wrong.
    """
    path = trusted_file(environ)
    try:
        data, found = read_regular(path, MOST_BYTES)
        if others_may_write(found):
            raise ConfigError([Mistake(str(path), None, "", "can be written by others: chmod 600 it")])
        return msgspec.json.decode(data, type=_File).trusted
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigError([Mistake(str(path), None, "", f"cannot be read: {error.strerror}")]) from error
    except msgspec.DecodeError as error:
        raise ConfigError([Mistake(str(path), None, "", f"cannot be used: {error}")]) from error


def pinned(found: Found) -> Trusted:
    """Return an extension as it is now: what somebody is shown, and may then trust.

    Raises:
        ConfigError: If the manifest is not what was found any more.
    """
    try:
        data = Disk().read(found.path)
        manifest, _ = read_extension(data, found.path, capability_faults)
    except OSError as error:
        raise ConfigError([Mistake(found.path, None, "", f"cannot be read: {error.strerror}")]) from error
    if manifest != found.manifest:
        raise ConfigError([Mistake(found.path, None, "", "has changed meanwhile: look again")])
    return Trusted(found.path, found.name, fingerprint(found.path, manifest, data))


def trust(added: Sequence[Trusted], environ: Mapping[str, str] = os.environ) -> Path:
    """Write down that extensions may start as they were pinned; what was said of the same manifests is replaced.

    Raises:
        ConfigError: As `read_trusted`.
        OSError: If the file cannot be written.
    """
    kept = [one for one in read_trusted(environ) if one.path not in {new.path for new in added}]
    path = trusted_file(environ)
    replace_private(path, msgspec.json.format(msgspec.json.encode(_File([*kept, *added])), indent=2) + b"\n")
    return path
