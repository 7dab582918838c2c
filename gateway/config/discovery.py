"""Which extensions there are: from places to look in to manifests, which of them are served, and why others are not.

Owns the rules of the Pi mechanism: the places and their precedence, one level deep, `package.json` with
`pi.extensions`. The first of a name wins, and nothing is left out in silence. Reads through a `Look` that it is given,
and starts nothing. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from posixpath import basename, isabs, join, normpath
from typing import Any, Final, Literal, Protocol, TypeAlias, cast

import msgspec

from gateway.config.extension_manifest import FILE, Check, ExtensionManifest, read_extension
from gateway.config.mistakes import ConfigError, Mistake
from gateway.config.peer import PeerConfig

Scope: TypeAlias = Literal["config", "project", "user"]
"""Who put it there: the configuration names it, the project brings it, or it is the user's own."""
Way: TypeAlias = Literal["path", "settings", "folder"]
Status: TypeAlias = Literal["served", "shadowed", "untrusted", "disabled"]

PACKAGE: Final = "package.json"
SUFFIX: Final = f".{FILE}"
"""How a manifest is called that lies in a folder of extensions itself, and not in one of its own."""
MOST_NAMES: Final = 1024
IN_PROCESS: Final = (".ts", ".js", ".mts", ".mjs")
"""What Pi would load into its own process."""


class Look(Protocol):
    """What can be seen of files. Paths are absolute."""

    def kind(self, path: str) -> Literal["file", "folder", ""]:
        """Return what lies at a path, links followed; nothing where nothing does, or something else."""
        ...

    def names(self, path: str) -> list[str]:
        """Return the names in a folder. Raises `OSError`."""
        ...

    def read(self, path: str) -> bytes:
        """Return the bytes of a file. Raises `OSError`."""
        ...


class Place(msgspec.Struct, frozen=True):
    """One place to look in."""

    scope: Scope
    way: Way
    path: str


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One extension whose manifest can be used, and what becomes of it."""

    manifest: ExtensionManifest
    path: str
    """Of the manifest."""
    scope: Scope
    place: str
    """Where it was found: a folder of extensions, a file of settings, or what the configuration names."""
    status: Status
    by: str = ""
    """What has the name already, where it is shadowed."""

    @property
    def name(self) -> str:
        """What it is called."""
        return self.manifest.name

    @property
    def why(self) -> str:
        """Why it is not served, as the end of a sentence; empty where it is."""
        reasons = {
            "shadowed": f"is not served: {self.by} has the name already",
            "untrusted": f"is of the project, and is not served before `tieline extensions trust {self.name}`",
            "disabled": "is not served: `extensions.disable` names it",
        }
        return reasons.get(self.status, "")


class Discovery(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was found."""

    found: tuple[Found, ...] = ()
    """In the order of precedence."""
    broken: tuple[Mistake, ...] = ()
    """What is wrong with manifests, settings and packages; each costs its own extension alone."""
    notes: tuple[str, ...] = ()
    """What was seen and is none, in sentences."""

    def peers(self) -> dict[str, PeerConfig]:
        """Return what is served, as peers, in the order of precedence."""
        return {one.name: one.manifest.peer(one.path) for one in self.found if one.status == "served"}

    def sentences(self) -> list[str]:
        """Return what somebody should know who starts with these, in sentences."""
        told = [str(mistake) for mistake in self.broken]
        told += [
            f"{one.path}: `{one.name}` {one.why}"
            for one in self.found
            if one.why and one.status != "disabled"
        ]
        return told


def places(paths: Sequence[str], project: str, agent: str) -> list[Place]:
    """Return where to look, first what wins: named paths, the project's `.pi`, then the user's agent folder."""
    found = [Place("config", "path", path) for path in paths]
    for scope, base in (("project", join(project, ".pi")), ("user", agent)):
        found.append(Place(cast(Scope, scope), "settings", join(base, "settings.json")))
        found.append(Place(cast(Scope, scope), "folder", join(base, "extensions")))
    return found


def discover(
    where: Sequence[Place],
    look: Look,
    *,
    check: Check,
    trusted: Callable[[str, ExtensionManifest, bytes], bool],
    peers: Collection[str] = (),
    disable: Collection[str] = (),
) -> Discovery:
    """Look in every place, and decide what is served.

    `trusted` says whether what a project brings may start, given the path of its manifest, that, and its bytes. `peers`
    are names that the configuration gives itself.
    """
    search = _Search(look, check)
    owners = {name: f"`peers.{name}` of the configuration" for name in peers}
    found: list[Found] = []
    for place, path, manifest, data in search.manifests(where):
        name, by = manifest.name, ""
        status: Status = "served"
        if name in disable:
            status = "disabled"
        elif place.scope == "project" and not trusted(path, manifest, data):
            # Before the name: what nobody trusts must not take the place of what somebody does.
            status = "untrusted"
        elif name in owners:
            status, by = "shadowed", owners[name]
        else:
            owners[name] = f"`{path}`"
        one = Found(
            manifest=manifest,
            path=path,
            scope=place.scope,
            place=place.path,
            status=status,
            by=by,
        )
        found.append(one)
    for name in sorted(set(disable) - {one.name for one in found}):
        search.notes.append(f"`extensions.disable` names `{name}`, which was not found")
    return Discovery(found=tuple(found), broken=tuple(search.broken), notes=tuple(search.notes))


class _Search:
    """One walk over all places."""

    def __init__(self, look: Look, check: Check) -> None:
        self.broken: list[Mistake] = []
        self.notes: list[str] = []
        self._look = look
        self._check = check
        self._seen: set[str] = set()

    def manifests(self, where: Sequence[Place]) -> Iterator[tuple[Place, str, ExtensionManifest, bytes]]:
        for place in where:
            for path in self._paths(place):
                if path in self._seen:
                    continue
                self._seen.add(path)
                try:
                    data = self._look.read(path)
                    manifest, notes = read_extension(data, path, self._check)
                except OSError as error:
                    self._fault(path, f"cannot be read: {error.strerror}")
                except ConfigError as error:
                    self.broken += error.mistakes
                else:
                    self.notes += notes
                    yield place, path, manifest, data

    def _paths(self, place: Place) -> Iterator[str]:
        if place.way == "settings":
            for entry in self._settings(place.path):
                yield from self._named(entry)
        elif place.way == "path":
            yield from self._named(place.path)
        elif self._look.kind(place.path) == "folder":
            yield from self._folder(place.path)

    def _named(self, path: str) -> Iterator[str]:
        """What somebody has named: a manifest, a folder with one, or a folder of extensions."""
        kind = self._look.kind(path)
        if kind == "file" and path.endswith(IN_PROCESS):
            self._in_process(path)
        elif kind == "file":
            yield path
        elif kind == "folder":
            own = self._package(path)
            yield from self._folder(path) if own is None else own
        else:
            self._fault(path, "is neither a manifest nor a folder")

    def _folder(self, folder: str) -> Iterator[str]:
        """A folder of extensions, one level deep."""
        for name in self._names(folder):
            path = join(folder, name)
            kind = self._look.kind(path)
            if kind == "file" and name.endswith(SUFFIX):
                yield path
            elif kind == "file" and name.endswith(IN_PROCESS):
                self._in_process(path)
            elif kind == "folder" and not name.startswith(".") and name != "node_modules":
                own = self._package(path)
                if own is not None:
                    yield from own
                else:
                    inner = next((n for n in ("index.ts", "index.js") if self._look.kind(join(path, n))), "")
                    if inner:
                        self._in_process(join(path, inner))
                    else:
                        self.notes.append(f"{path}: holds no `{FILE}`, and folders in it are not looked at")

    def _names(self, folder: str) -> list[str]:
        try:
            names = sorted(self._look.names(folder))
        except OSError as error:
            self._fault(folder, f"cannot be listed: {error.strerror}")
            return []
        if len(names) > MOST_NAMES:
            self._fault(folder, f"holds {len(names)} names; the first {MOST_NAMES} are looked at")
        return names[:MOST_NAMES]

    def _package(self, folder: str) -> list[str] | None:
        """The manifests of one folder that is an extension or a package of several; None where it is neither."""
        package = join(folder, PACKAGE)
        if self._look.kind(package) == "file":
            listed = self._strings(package, "pi", "extensions")
            if listed:
                found = [path for entry in listed for path in self._listed(folder, package, entry)]
                # A package may bring an extension for Pi itself, and one for hosts of programs.
                return found or self._own(folder) or []
        return self._own(folder)

    def _own(self, folder: str) -> list[str] | None:
        own = join(folder, FILE)
        return [own] if self._look.kind(own) == "file" else None

    def _listed(self, folder: str, package: str, entry: str) -> Iterator[str]:
        path = normpath(join(folder, entry))
        if self._look.kind(path) == "folder":
            path = join(path, FILE)
        if self._look.kind(path) != "file":
            self._fault(package, f"`pi.extensions` names `{entry}`, where no file is")
        elif path.endswith(IN_PROCESS):
            self._in_process(path)
        else:
            yield path

    def _settings(self, path: str) -> Iterator[str]:
        if self._look.kind(path) != "file":
            return
        base = path[: -len(basename(path))]
        for entry in self._strings(path, "extensions"):
            if entry[:1] in "!+-" or "*" in entry or entry.startswith("~"):
                self.notes.append(
                    f"{path}: `extensions` has `{entry}`: patterns and `~` are not followed here"
                )
            else:
                yield normpath(entry if isabs(entry) else join(base, entry))

    def _strings(self, path: str, *keys: str) -> list[str]:
        """A list of text somewhere in a JSON file that is another program's too; empty where it is not there."""
        try:
            value: Any = json.loads(self._look.read(path))
        except OSError as error:
            self._fault(path, f"cannot be read: {error.strerror}")
            return []
        except (ValueError, RecursionError):
            self._fault(path, "is not valid JSON")
            return []
        for key in keys:
            value = cast(dict[str, Any], value).get(key) if isinstance(value, dict) else None
        if value is None:
            return []
        if not isinstance(value, list) or not all(
            isinstance(one, str) and one for one in cast(list[object], value)
        ):
            self.broken.append(Mistake(path, None, ".".join(keys), "must be a list of paths"))
            return []
        return cast(list[str], value)

    def _in_process(self, path: str) -> None:
        self.notes.append(
            f"{path}: Pi would load it into its own process; here an extension is a program, with an `{FILE}`"
        )

    def _fault(self, path: str, why: str) -> None:
        self.broken.append(Mistake(path, None, "", why))
