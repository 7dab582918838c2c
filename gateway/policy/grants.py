"""Remembered answers: the file that a person can read and edit, finding the answer for a call, and changing the file.

Owns the form of the file as text, TOML; reads and writes none. An answer that allows is bound to the program and to
the manifest for which it was given: where one of them changes, it does not hold any more, and the decision says so. A
refusal need not be bound, and then holds whatever changes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, cast

import msgspec
from msgspec import Meta

from gateway.config.documents import toml_document
from gateway.config.mistakes import ConfigError, Mistake, Report
from gateway.config.reading import as_is, read
from gateway.policy.capability import TOOL_MARK, Need, can_be_named
from gateway.policy.decide import Decision
from gateway.policy.model import Remembered
from gateway.policy.scope import KINDS, UNLIMITED, Allowed, Scope, faults
from gateway.protocol.canonical import canonical

MOST_GRANTS: Final = 10_000
HEAD: Final = """\
# What was answered when extensions asked for something. Delete a table to be asked again.
# `scope` is `session`, `project` or `always`; `until` ends it.
"""


class Grant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One remembered answer."""

    extension: Annotated[str, Meta(min_length=1, description="The extension.")]
    capability: Annotated[str, Meta(min_length=1, description="What it asked for; `tool:NAME` is one tool.")]
    verdict: Annotated[Literal["allow", "deny"], Meta(description="What was answered.")]
    scope: Annotated[Literal["session", "project", "always"], Meta(description="For how long.")]
    session: Annotated[str, Meta(description="The session, if for one.")] = ""
    project: Annotated[str, Meta(description="The project's folder, if for one.")] = ""
    executable: Annotated[str, Meta(description="What identifies the program: `sha256:…`.")] = ""
    manifest: Annotated[str, Meta(description="The hash of what was declared; empty for nothing.")] = ""
    within: Annotated[Scope, Meta(description="Paths, hosts or variables that it is limited to.")] = UNLIMITED
    decided: Annotated[datetime | None, Meta(description="When it was answered.")] = None
    until: Annotated[datetime | None, Meta(description="When it ends.")] = None

    @property
    def id(self) -> str:
        """What decisions call it: 12 hex digits of all that it says but for when it was decided."""
        until = self.until.astimezone(UTC) if self.until and self.until.tzinfo else self.until
        told = msgspec.to_builtins(msgspec.structs.replace(self, decided=None, until=until))
        return hashlib.sha256(canonical(told)).hexdigest()[:12]

    @property
    def key(self) -> tuple[str, ...]:
        """What a later answer to the same question has in common with it."""
        return (self.extension, self.capability, self.scope, self.session, self.project)


class Grants:
    """All remembered answers, ready to be asked."""

    def __init__(self, grants: Iterable[Grant] = ()) -> None:
        self.grants: Sequence[Grant] = tuple(grants)
        told = sorted(canonical(msgspec.to_builtins(grant)) for grant in self.grants)
        self.hash = "sha256:" + hashlib.sha256(b"\n".join(told)).hexdigest() if told else ""
        self._by: dict[tuple[str, str], list[tuple[Grant, str, Allowed | None]]] = {}
        for grant in self.grants:
            place = self._by.setdefault((grant.extension, grant.capability), [])
            within = None
            if grant.within.of(grant.capability) is not None:
                within = Allowed(grant.capability, [grant.within], wide=grant.verdict == "deny")
            place.append((grant, grant.id, within))

    def remembered(
        self,
        extension: str,
        need: Need,
        *,
        now: datetime,
        executable: str = "",
        manifest: str = "",
        session: str = "",
        project: str = "",
        folds_case: bool = False,
    ) -> Remembered | None:
        """Return the answer that holds for a call, refusals first; None if nobody was asked.

        Where the only answers do not hold any more, one of them is returned as `none`, with why. `folds_case` is
        that of the root that the paths lie in: a refusal of paths then holds for every spelling.

        Raises:
            BudgetError: If a path leads to too many places of a grant's patterns.
        """
        if not self._by:
            return None
        names = (need.capability, TOOL_MARK + need.tool) if need.tool else (need.capability,)
        best: Remembered | None = None
        for name in names:
            for grant, grant_id, within in self._by.get((extension, name), ()):
                if (grant.scope == "session" and grant.session != session) or (
                    grant.scope == "project" and grant.project != project
                ):
                    continue
                if within is not None and not _touches(
                    within, need, whole=grant.verdict == "allow", folds_case=folds_case
                ):
                    continue
                stale = _stale(grant, executable, manifest, now)
                verdict = "none" if stale else grant.verdict
                found = Remembered(verdict=verdict, scope=grant.scope, id=grant_id, stale=stale)
                if best is None or _RANK[found.verdict] < _RANK[best.verdict]:
                    best = found
        return best


_RANK: Final = {"deny": 0, "allow": 1, "none": 2}


def _touches(within: Allowed, need: Need, *, whole: bool, folds_case: bool) -> bool:
    """Whether a limited answer is about a call: one that allows must cover it whole, one that refuses any of it."""
    if whole:
        return within.covers(need)
    parts = [Need(need.capability, need.method, need.tool, need.root, paths=(path,)) for path in need.paths]
    parts += [Need(need.capability, need.method, hosts=(host,)) for host in need.hosts]
    parts += [Need(need.capability, need.method, env=(name,)) for name in need.env]
    return any(within.covers(part, folds_case=folds_case) for part in parts)


def _stale(grant: Grant, executable: str, manifest: str, now: datetime) -> str:
    if grant.until is not None and now >= grant.until:
        return "expired"
    refuses = grant.verdict == "deny"
    if grant.executable != executable and not (refuses and not grant.executable):
        return "executable"
    if grant.manifest != manifest and not (refuses and not grant.manifest):
        return "manifest"
    return ""


def grant_of(decision: Decision, *, now: datetime, until: datetime | None = None) -> Grant | None:
    """Return what is to be remembered of an answered decision; None where it was for once, or nobody answered."""
    answer, facts = decision.answer, decision.facts
    if answer is None or answer.allowed is None or answer.keep == "once":
        return None
    need = facts.need
    is_tool = need.capability == "tool" and need.tool
    return Grant(
        extension=facts.extension,
        capability=TOOL_MARK + need.tool if is_tool else need.capability,
        verdict="allow" if answer.allowed else "deny",
        scope=answer.keep,
        session=facts.session if answer.keep == "session" else "",
        project=facts.project if answer.keep == "project" else "",
        executable=facts.executable,
        manifest=facts.manifest,
        decided=now.astimezone(UTC).replace(microsecond=0),
        until=until,
    )


def parse_grants(text: str, *, file: str = "grants.toml") -> Grants:
    """Read the file. It is read whole or not at all: a mistake might hide a refusal.

    Raises:
        ConfigError: With everything that is wrong with it.
    """
    report = Report(file=file)
    document = toml_document(text, report)
    for key in document:
        if key not in ("version", "grants"):
            report.mistake((key,), "is not a known key")
    if document.get("version", 1) != 1:
        report.mistake(("version",), "must be 1")
    listed = document.get("grants", [])
    if not isinstance(listed, list):
        report.mistake(("grants",), "must be a list of tables")
        listed = []
    items = cast(list[Any], listed)
    if len(items) > MOST_GRANTS:
        report.mistake(("grants",), f"has more than {MOST_GRANTS} entries")
        items = []
    grants: list[Grant] = []
    for at, item in enumerate(items):
        grant = read(Grant, item, ("grants", at), report, as_is)
        if grant is not None:
            _check(grant, at, report)
            grants.append(grant)
    if report.mistakes:
        raise ConfigError(report.mistakes)
    return Grants(grants)


def _check(grant: Grant, at: int, report: Report) -> None:
    place = ("grants", at)
    if not can_be_named(grant.capability):
        report.mistake((*place, "capability"), "is not a capability")
    for name in ("session", "project"):
        if grant.scope == name and not getattr(grant, name):
            report.mistake((*place, name), f"is missing: the answer is for one {name}")
    if grant.verdict == "allow" and not grant.executable:
        report.mistake((*place, "executable"), "is missing: what is allowed is bound to a program")
    for name in ("decided", "until"):
        value: datetime | None = getattr(grant, name)
        if value is not None and value.tzinfo is None:
            report.mistake((*place, name), "must have an offset, such as `Z`")
    for kind, number, fault in faults(grant.within):
        report.mistake((*place, "within", kind, number), fault)
    for kind in grant.within.kinds:
        if kind != KINDS.get(grant.capability):
            report.mistake((*place, "within", kind), f"does not limit `{grant.capability}`")


def with_grant(text: str, grant: Grant) -> str:
    """Return the file's text with an answer, in place of earlier ones to the same question. Comments stay.

    Raises:
        ConfigError: If the text is wrong, or is written so that a table cannot be taken out alone.
    """
    old = [
        each.id for each in parse_grants(text).grants if each.key == grant.key and each.within == grant.within
    ]
    text = without_grants(text, old) if old else text
    head = text if text.strip() else HEAD
    made = head.rstrip("\n") + "\n\n" + _block(grant)
    parse_grants(made)
    return made


def without_grants(text: str, ids: Iterable[str]) -> str:
    """Return the file's text without these answers and the comments right above them.

    Raises:
        ConfigError: As `with_grant`.
    """
    gone = set(ids)
    before = parse_grants(text).grants
    # A line of TOML ends in a line feed alone; `splitlines` knows others, which stand in texts.
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    heads = [at for at, line in enumerate(lines) if line.strip().partition("#")[0].strip() == "[[grants]]"]
    if len(heads) != len(before):
        raise ConfigError([Mistake("grants.toml", None, "grants", "must be written as tables `[[grants]]`")])
    starts = [_above(lines, head) for head in heads]
    ends = [*starts[1:], len(lines)]
    kept = lines[: starts[0]] if starts else lines
    for grant, start, end in zip(before, starts, ends, strict=True):
        if grant.id not in gone:
            kept += lines[start:end]
    made = "".join(kept)
    if [each.id for each in parse_grants(made).grants] != [each.id for each in before if each.id not in gone]:
        raise ConfigError([Mistake("grants.toml", None, "grants", "cannot be changed without losing others")])
    return made


def _above(lines: Sequence[str], head: int) -> int:
    """The first line of the comment right above a table."""
    while head > 0 and lines[head - 1].lstrip().startswith("#"):
        head -= 1
    return head


def _block(grant: Grant) -> str:
    lines = ["[[grants]]"]
    for name in grant.__struct_fields__:
        value = getattr(grant, name)
        if isinstance(value, Scope):
            limits = ", ".join(f"{kind} = {json.dumps(getattr(value, kind))}" for kind in value.kinds)
            lines += [f"{name} = {{ {limits} }}"] if limits else []
        elif isinstance(value, datetime):
            lines.append(f"{name} = {value.astimezone(UTC).replace(tzinfo=None).isoformat()}Z")
        elif value:
            lines.append(f"{name} = {_toml_text(value)}")
    return "\n".join(lines) + "\n"


def _toml_text(text: str) -> str:
    # JSON's escapes are TOML's, but for what JSON leaves alone and TOML does not.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
