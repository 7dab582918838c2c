"""The profile: which parts of a request are expected to differ from run to run, and how its answer is used up.

Owns the rules that are built in and those that a project adds, as data that can be stored with a recording and
read from a table of TOML. Applies none of them to a request: that is `form`'s business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias, cast

import msgspec

from recordings.errors import Code, RecordingError
from recordings.globs import glob_fault

VERSION = 1
"""The version of the built-in rules. Keys made under different versions are not comparable."""

CLASSES: tuple[str, ...] = (
    "uuid", "hex", "timestamp", "tempname", "pid", "port", "secret", "session", "cursor", "state",
)  # fmt: skip
"""Kinds of values that differ from run to run. A path under a root is the class that its root is called."""

OWN = "x-"
"""What a class that a project makes up begins with."""

IGNORE = "ignore"
"""What a rule says of a place that does not matter at all, not even whether it is there."""

ROOTS: tuple[str, ...] = ("cwd", "home", "tmp")
"""What roots are usually called."""

FORMATS: Mapping[str, str] = {
    "date-time": "timestamp",
    "date": "timestamp",
    "time": "timestamp",
    "uuid": "uuid",
}
"""JSON Schema formats whose values differ from run to run, and the class of each."""

Consumption: TypeAlias = Literal["fifo", "sticky", "sampled", "once"]
"""How recorded answers are used up: one a request in order; again and again; by time; once and never again."""

_STICKY = frozenset(
    (
        "initialize", "server/discover", "ping", "tools/list", "resources/list", "resources/templates/list",
        "prompts/list", "roots/list", "logging/setLevel", "pi/offers",
    )
)  # fmt: skip
_SAMPLED = frozenset(("tasks/get", "tasks/list"))


class Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a project says about places of a message (`at` or `format`) or about its consumption (`consume`).

    `method`, `peer` and `tool` are globs; what is None fits everything. The first rule that fits a place wins,
    and rules come before what is built in.
    """

    at: str | None = None
    """A JSON Pointer glob from the message's root: `/params/arguments/**/ts`, `/result/structuredContent/*`."""
    format: str | None = None
    """A `format` of the tool's input schema: it stands for every argument that the schema gives it."""
    method: str | None = None
    peer: str | None = None
    tool: str | None = None
    """The name of a tool or prompt, or the URI of a resource."""
    kind: str | None = msgspec.field(default=None, name="as")
    """A class, or `ignore`."""
    tolerance: float | None = None
    """Numbers that are no further apart than this are the same."""
    consume: Consumption | None = None
    note: str | None = None
    """For people."""

    def fits(self, peer: str | None, method: str, name: str | None) -> bool:
        """Whether this rule speaks about such messages."""
        for glob, value in ((self.peer, peer), (self.method, method), (self.tool, name)):
            if glob is not None and (value is None or not fnmatchcase(value, glob)):
                return False
        return True


def literal_glob(text: str) -> str:
    """The glob for `method`, `peer` or `tool` that matches this text alone."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in text)


class Root(msgspec.Struct, frozen=True):
    """A folder that lies somewhere else in another run: paths under it are the same if their rest is."""

    name: str
    path: str


class Profile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """Everything that decides when two requests are the same. `msgspec.json` writes and reads it.

    `roots` are those of the run whose requests are looked at: the recorded and the live side have their own.
    """

    version: int = VERSION
    rules: tuple[Rule, ...] = ()
    roots: tuple[Root, ...] = ()
    exact: tuple[str, ...] = ()
    """Classes that are not looked for in this project: their values must be equal."""

    def with_roots(self, roots: Mapping[str, str]) -> Profile:
        """The profile for a run whose folders lie there; empty paths and `/` are no roots."""
        found = [Root(name, path.rstrip("/\\")) for name, path in roots.items()]
        return msgspec.structs.replace(self, roots=tuple(root for root in found if len(root.path) > 1))

    def with_rules(self, rules: Iterable[Rule]) -> Profile:
        """The profile with more rules, after its own."""
        return msgspec.structs.replace(self, rules=(*self.rules, *rules))

    def behind(self, first: Profile) -> Profile:
        """The profile with what another one says before it; each rule once. Its roots stay."""
        return msgspec.structs.replace(
            self,
            rules=tuple(dict.fromkeys((*first.rules, *self.rules))),
            exact=tuple(dict.fromkeys((*first.exact, *self.exact))),
        )


BUILT_IN = Profile()
"""What is volatile in every project."""


def kind_name(name: str | None) -> str | None:
    """The name by which requests of one kind are gathered: none for a URI.

    It stands in the params too, where it is renamed if it lies under a root or holds an id.
    """
    return None if name is None or "://" in name else name


def consumption(
    profile: Profile,
    method: str,
    name: str | None = None,
    *,
    peer: str | None = None,
    annotations: Mapping[str, object] | None = None,
) -> Consumption:
    """How the recorded answers to such requests are used up.

    `annotations` are those of the tool, where they are known: one that says that it destroys, or that it is not
    idempotent, is `once`. What is not said is not assumed.
    """
    for rule in profile.rules:
        if rule.consume is not None and rule.fits(peer, method, name):
            return rule.consume
    if method in _STICKY:
        return "sticky"
    if method in _SAMPLED:
        return "sampled"
    if annotations and annotations.get("readOnlyHint") is not True:
        says = annotations.get("destructiveHint") is True or annotations.get("idempotentHint") is False
        return "once" if says else "fifo"
    return "fifo"


# Reading rules

KeyPath: TypeAlias = tuple[str | int, ...]


class Fault(msgspec.Struct, frozen=True):
    """One thing that is wrong with a table of rules: where, and what as the end of a sentence."""

    path: KeyPath
    message: str

    @property
    def key(self) -> str:
        """The place as people write it: `rule[2].at`."""
        text = ""
        for part in self.path:
            text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
        return text


class ProfileError(RecordingError):
    """Rules that cannot be used; `faults` has everything that is wrong with them."""

    code: Code = "invalid_request"

    def __init__(
        self, faults: Iterable[Fault], *, file: str = "", lines: Mapping[KeyPath, int] | None = None
    ) -> None:
        self.faults = tuple(faults)
        super().__init__(
            "\n".join(_said(fault, file, lines or {}) for fault in self.faults),
            details={"file": file, "keys": [fault.key for fault in self.faults]},
        )


def profile_of(
    table: Mapping[str, object],
    *,
    at: KeyPath = (),
    file: str = "",
    lines: Mapping[KeyPath, int] | None = None,
) -> Profile:
    """The profile that a table of TOML describes: `rule` (a list of tables), `exact` (a list of classes).

    `at` is where the table lies in the file, `lines` where each value stands: both for what is said of mistakes.

    Raises:
        ProfileError: With every mistake.
    """
    faults = [
        Fault((*at, key), "is not known here" + _hint(key, ("rule", "exact")))
        for key in table
        if key not in ("rule", "exact", "version")
    ]
    version = table.get("version", VERSION)
    if version != VERSION:
        faults.append(
            Fault((*at, "version"), f"must be {VERSION}, the version of the rules that are built in")
        )
    rules: list[Rule] = []
    listed = table.get("rule", [])
    if not isinstance(listed, list):
        faults.append(Fault((*at, "rule"), "must be a list of tables: write `[[rule]]`"))
        listed = []
    for number, given in enumerate(cast("list[object]", listed)):
        rule = _rule(given, (*at, "rule", number), faults)
        if rule is not None:
            rules.append(rule)
    exact = _exact(table.get("exact", []), (*at, "exact"), faults)
    if faults:
        raise ProfileError(faults, file=file, lines=lines)
    return Profile(rules=tuple(rules), exact=exact)


_RULE_KEYS = ("at", "format", "method", "peer", "tool", "as", "tolerance", "consume", "note")


def _rule(given: object, at: KeyPath, faults: list[Fault]) -> Rule | None:
    if not isinstance(given, dict):
        faults.append(Fault(at, "must be a table"))
        return None
    table = cast("dict[str, object]", given)
    before = len(faults)
    for key, value in table.items():
        path = (*at, key)
        if key not in _RULE_KEYS:
            faults.append(Fault(path, "is not known in a rule" + _hint(key, _RULE_KEYS)))
        elif key == "tolerance":
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
                faults.append(Fault(path, "must be a number greater than 0"))
        elif not isinstance(value, str) or not value:
            faults.append(Fault(path, "must be a text that is not empty"))
        else:
            fault = _value_fault(key, value)
            if fault is not None:
                faults.append(Fault(path, fault))
    fault = _rule_fault(table)
    if fault is not None and len(faults) == before:
        faults.append(Fault(at, fault))
    return None if len(faults) > before else msgspec.convert(table, Rule, strict=False)


def _rule_fault(table: Mapping[str, object]) -> str | None:
    """What the keys of a rule do not say together."""
    place = "at" in table or "format" in table
    told = [key for key in ("as", "tolerance", "consume") if key in table]
    if "at" in table and "format" in table:
        return "has both `at` and `format`: make it two rules"
    if len(told) != 1:
        return "must say exactly one of `as`, `tolerance` and `consume`"
    if told == ["consume"]:
        if place:
            return "speaks of whole requests by `consume`, so it takes no `at` and no `format`"
        if not {"method", "peer", "tool"} & set(table):
            return "must say by `method`, `peer` or `tool` which requests it means"
        return None
    return None if place else "must say by `at` or `format` which places it means"


def _value_fault(key: str, value: str) -> str | None:
    if key == "at":
        return glob_fault(value)
    if key == "as":
        return None if value == IGNORE else class_fault(value)
    if key == "format" and value not in FORMATS and not value.isascii():
        return "must be the name of a JSON Schema format"
    if key == "consume" and value not in ("fifo", "sticky", "sampled", "once"):
        return "must be `fifo`, `sticky`, `sampled` or `once`" + _hint(
            value, ("fifo", "sticky", "sampled", "once")
        )
    return None


def class_fault(name: str) -> str | None:
    """What is wrong with the name of a class, as the end of a sentence; None for nothing."""
    known = (*CLASSES, *ROOTS)
    if name in known:
        return None
    if name.startswith(OWN) and name[2:].replace("-", "").isalnum() and name.isascii():
        return None
    return (
        f"must be `{IGNORE}`, one of {', '.join(known)}, or a class of your own that begins with `{OWN}`"
        + _hint(name, (IGNORE, *known))
    )


def _exact(given: object, at: KeyPath, faults: list[Fault]) -> tuple[str, ...]:
    if not isinstance(given, list):
        faults.append(Fault(at, "must be a list of classes"))
        return ()
    names = cast("list[object]", given)
    for number, name in enumerate(names):
        if name not in (*CLASSES, *ROOTS):
            faults.append(Fault((*at, number), "must be one of " + ", ".join((*CLASSES, *ROOTS))))
    return tuple(name for name in names if isinstance(name, str))


def _hint(word: str, known: Iterable[str]) -> str:
    near = get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return f"; did you mean `{near[0]}`?" if near else ""


def _said(fault: Fault, file: str, lines: Mapping[KeyPath, int]) -> str:
    path = fault.path
    while path and path not in lines:
        path = path[:-1]
    where = f"{file}:{lines[path]}: " if file and path in lines else f"{file}: " if file else ""
    return f"{where}`{fault.key}` {fault.message}"
