"""What an extension has declared: `pi.ext.cap.v1` manifests, and the flat list of before.

Owns the reading, with everything that is wrong told at its place, and what a declaration says about one call. A
manifest that cannot be read declares nothing, so its extension can do nothing; it is never read in part. Source: the
extension protocol, capability manifest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias, cast

import msgspec

from gateway.config.mistakes import did_you_mean
from gateway.policy.capability import METHODS_OF, TOOL_MARK, Need
from gateway.policy.scope import KINDS, UNLIMITED, Allowed, Scope, faults
from gateway.protocol.canonical import NotCanonicalError, canonical
from gateway.protocol.capabilities import CAPABILITIES, METHODS

SCHEMA: Final = "pi.ext.cap.v1"
MOST_ENTRIES: Final = 256

Standing: TypeAlias = Literal[
    "declared", "nothing_declared", "unreadable_manifest", "undeclared", "undeclared_method", "out_of_scope"
]
"""What a declaration says about a call. `nothing_declared`: there is neither a manifest nor a list."""


class ManifestError(ValueError):
    """A manifest that cannot be read. `mistakes` are pairs of a JSON Pointer and the end of a sentence."""

    def __init__(self, mistakes: Iterable[tuple[str, str]]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("; ".join(f"`{place or '/'}` {fault}" for place, fault in self.mistakes))

    @property
    def sentence(self) -> str:
        """What people are told who run an extension with such a manifest."""
        return f"its capabilities cannot be read, so it may do nothing: {self}"


class Declared(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a manifest. `methods` of None are all that the capability can be used through."""

    capability: str
    methods: tuple[str, ...] | None = None
    scope: Scope = UNLIMITED


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What an extension declares, read."""

    entries: tuple[Declared, ...]
    hash: str
    """`sha256:` and the hex of the canonical JSON of what was declared."""
    is_coarse: bool = False
    """Whether it is the flat list of before, which knows neither methods nor scopes."""
    notes: tuple[str, ...] = ()
    """What is right and does nothing, in sentences."""


def read_manifest(document: object) -> Manifest:
    """Read a decoded manifest. Members that nobody knows are legal, but not inside of a scope.

    Raises:
        ManifestError: If anything in it is wrong, with all of it.
    """
    wrong: list[tuple[str, str]] = []
    notes: list[str] = []
    if not isinstance(document, dict):
        raise ManifestError([("", "must be an object")])
    table = cast(dict[str, Any], document)
    if table.get("schema") != SCHEMA:
        wrong.append(("/schema", f"must be `{SCHEMA}`"))
    entries: list[Declared] = []
    listed = table.get("capabilities")
    if not isinstance(listed, list):
        wrong.append(("/capabilities", "must be a list"))
    elif len(cast(list[Any], listed)) > MOST_ENTRIES:
        wrong.append(("/capabilities", f"has more than {MOST_ENTRIES} entries"))
    else:
        for at, item in enumerate(cast(list[Any], listed)):
            entry = _entry(item, f"/capabilities/{at}", wrong, notes)
            if entry is not None:
                entries.append(entry)
    found = _hash(table, wrong)
    if wrong:
        raise ManifestError(wrong)
    return Manifest(entries=tuple(entries), hash=found, notes=tuple(notes))


def coarse(capabilities: object) -> Manifest:
    """Read the flat list of before: each capability through all of its methods, without limits.

    Raises:
        ManifestError: If it is no list of text.
    """
    if not isinstance(capabilities, list):
        raise ManifestError([("", "must be a list of capabilities")])
    items = cast(list[Any], capabilities)
    wrong = [(f"/{at}", "must be text") for at, item in enumerate(items) if not isinstance(item, str)]
    if len(items) > MOST_ENTRIES:
        wrong.append(("", f"has more than {MOST_ENTRIES} entries"))
    found = _hash(items, wrong)
    if wrong:
        raise ManifestError(wrong)
    names = tuple(dict.fromkeys(cast(list[str], items)))
    notes = tuple(note for at, name in enumerate(names) if (note := _unknown(name, f"/{at}")))
    entries = tuple(Declared(capability=name) for name in names)
    return Manifest(entries=entries, hash=found, is_coarse=True, notes=notes)


class Declaration:
    """What one extension has declared, ready to be asked about calls."""

    def __init__(self, manifest: Manifest | None, *, unreadable: bool = False) -> None:
        self.manifest = manifest
        self._silent: Standing = "unreadable_manifest" if unreadable else "nothing_declared"
        self._entries: dict[str, list[Declared]] = {}
        for entry in manifest.entries if manifest is not None else ():
            self._entries.setdefault(entry.capability, []).append(entry)
        self._says: dict[tuple[str, str, str], Standing | tuple[Allowed, ...]] = {}

    @property
    def hash(self) -> str:
        """The hash of what was declared; empty if nothing was."""
        return "" if self.manifest is None else self.manifest.hash

    def standing(self, need: Need) -> Standing:
        """What it says about a call.

        Raises:
            BudgetError: If a path leads to too many places of its patterns.
        """
        if self.manifest is None:
            return self._silent
        tool = need.tool if TOOL_MARK + need.tool in self._entries else ""
        key = (need.capability, need.method, tool)
        says = self._says.get(key)
        if says is None:
            says = self._says[key] = self._about(*key)
        if isinstance(says, str):
            return says
        for each in says:
            if each.covers(need):
                return "declared"
        return "out_of_scope"

    def _about(self, capability: str, method: str, tool: str) -> Standing | tuple[Allowed, ...]:
        """The scopes of the entries that speak of such calls, or what there is to say without a look at one."""
        names = [capability, *([TOOL_MARK + tool] if tool else ())]
        if not any(name in self._entries for name in names):
            return "undeclared"
        fitting = [
            [
                entry.scope
                for entry in self._entries.get(name, ())
                if entry.methods is None or method in entry.methods
            ]
            for name in names
        ]
        found = tuple(Allowed(capability, scopes) for scopes in fitting if scopes)
        return found or "undeclared_method"


def declaration(register: Mapping[str, Any]) -> tuple[Declaration, ManifestError | None]:
    """Return what the payload of a `register` message declares, and why it cannot be read, if so.

    A manifest counts alone; the flat list where there is none.
    """
    try:
        if register.get("capability_manifest") is not None:
            return Declaration(read_manifest(register["capability_manifest"])), None
        if register.get("capabilities") is not None:
            return Declaration(coarse(register["capabilities"])), None
    except ManifestError as error:
        return Declaration(None, unreadable=True), error
    return Declaration(None), None


def _entry(item: object, place: str, wrong: list[tuple[str, str]], notes: list[str]) -> Declared | None:
    if not isinstance(item, dict):
        wrong.append((place, "must be an object"))
        return None
    table = cast(dict[str, Any], item)
    before = len(wrong)
    capability = table.get("capability")
    if not isinstance(capability, str) or not capability:
        wrong.append((f"{place}/capability", "must be the name of a capability"))
        return None
    methods = _methods(table, capability, place, wrong, notes)
    scope = _scope(table, capability, f"{place}/scope", wrong)
    if note := _unknown(capability, f"{place}/capability"):
        notes.append(note)
    return None if len(wrong) > before else Declared(capability=capability, methods=methods, scope=scope)


def _methods(
    table: Mapping[str, Any], capability: str, place: str, wrong: list[tuple[str, str]], notes: list[str]
) -> tuple[str, ...] | None:
    if "methods" not in table:
        return None
    methods = table["methods"]
    if not isinstance(methods, list) or not all(isinstance(each, str) for each in cast(list[Any], methods)):
        wrong.append((f"{place}/methods", "must be a list of names"))
        return None
    names = cast(list[str], methods)
    for name in names:
        if capability in METHODS_OF and name not in METHODS_OF[capability]:
            near = did_you_mean(name, METHODS) if name not in METHODS else ""
            notes.append(f"`{place}/methods` has `{name}`, through which `{capability}` is never used{near}")
    return tuple(names)


def _scope(table: Mapping[str, Any], capability: str, place: str, wrong: list[tuple[str, str]]) -> Scope:
    if "scope" not in table:
        return UNLIMITED
    try:
        # A limit that is not understood would be no limit.
        scope = msgspec.convert(table["scope"], Scope, strict=True)
    except msgspec.ValidationError as error:
        wrong.append((place, f"cannot be read: {error}"))
        return UNLIMITED
    wrong += [(f"{place}/{kind}/{at}", fault) for kind, at, fault in faults(scope)]
    kind = KINDS.get(capability)
    for other in scope.kinds:
        if other != kind and (kind is None or kind not in scope.kinds):
            wrong.append(
                (f"{place}/{other}", f"does not limit `{capability}`, which would have no limit at all")
            )
    return scope


def _unknown(capability: str, place: str) -> str:
    if capability in CAPABILITIES or capability.startswith(TOOL_MARK):
        return ""
    return f"`{place}` names `{capability}`, which no call needs{did_you_mean(capability, CAPABILITIES)}"


def _hash(value: object, wrong: list[tuple[str, str]]) -> str:
    try:
        return "sha256:" + hashlib.sha256(canonical(value)).hexdigest()
    except (NotCanonicalError, TypeError) as error:
        wrong.append(("", f"has no canonical form: {error}"))
        return ""
