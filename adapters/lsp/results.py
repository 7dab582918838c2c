"""What the tools give: lines from 1, columns in characters from 1, source lines, and who said so.

Owns the shapes of results and how they read as text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from adapters.lsp.answer import Answer
from adapters.lsp.readiness import Readiness
from adapters.lsp.service import Service
from adapters.lsp.wire import Severity

CUT = "(the rest of the patch is not shown)\n"


class Source(msgspec.Struct, kw_only=True):
    """A language server that answered. `complete` is false where there may be more, and `note` says why."""

    name: str
    version: str
    readiness: Readiness
    complete: bool
    note: str = ""


class Said(msgspec.Struct, kw_only=True):
    """Who answered, and whether it was the whole answer: a server that still loads gives a part."""

    servers: list[Source]
    complete: bool

    def caveat(self) -> str:
        """What keeps the answer from being the whole one, a line each; empty where nothing does."""
        notes = [source.note for source in self.servers if source.note]
        return "".join(f"\n({note})" for note in notes)


class Place(msgspec.Struct, kw_only=True):
    """A place in a file. `text` is the source line; empty outside of the root."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    text: str

    def shown(self) -> str:
        """`path:line:column: source`."""
        return f"{self.path}:{self.line}:{self.column}: {self.text.strip()}".rstrip(": ")


class Places(Said, kw_only=True):
    """Places, by path and line. `total` is how many there are, `next_offset` where to go on."""

    asked: Place
    places: list[Place]
    total: int
    next_offset: int | None = None

    def text(self) -> str:
        """`path:line:column: source`, one place a line."""
        lines = [place.shown() for place in self.places] or ["none found"]
        return "\n".join(lines) + _more(self.total, self.next_offset) + self.caveat()


class Hover(Said, kw_only=True):
    """What the server shows for a symbol, as Markdown."""

    content: str
    place: Place

    def text(self) -> str:
        """The content alone."""
        return (self.content or "nothing known") + self.caveat()


class Symbol(msgspec.Struct, kw_only=True):
    """A symbol of a file; `container` is the path of names above it."""

    name: str
    kind: str
    container: str
    path: str
    line: int
    column: int
    end_line: int

    @property
    def dotted(self) -> str:
        """Its name with those above it."""
        return f"{self.container}.{self.name}" if self.container else self.name


class Symbols(Said, kw_only=True):
    """Symbols: of a file in the order of the file, of the workspace by path and line."""

    symbols: list[Symbol]
    total: int
    next_offset: int | None = None

    def text(self) -> str:
        """`path:line: kind container.name`, one symbol a line."""
        lines = [f"{each.path}:{each.line}: {each.kind} {each.dotted}" for each in self.symbols]
        return "\n".join(lines or ["no symbols"]) + _more(self.total, self.next_offset) + self.caveat()


class Diagnostic(msgspec.Struct, kw_only=True):
    """One thing that is wrong. `text` is the source line."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    severity: Severity
    code: str
    message: str
    server: str
    text: str

    def shown(self) -> str:
        """`path:line:column: severity: message [code]`."""
        code = f" [{self.code}]" if self.code else ""
        message = "\n    ".join(line for line in self.message.splitlines() if line.strip())
        return f"{self.path}:{self.line}:{self.column}: {self.severity}: {message}{code}"


class Diagnostics(Said, kw_only=True):
    """What is wrong, by path and line. `files` is how many were asked about, `unanswered` which got no answer."""

    files: int
    diagnostics: list[Diagnostic]
    total: int
    unanswered: list[str]
    next_offset: int | None = None

    def text(self) -> str:
        """`path:line:column: severity: message [code]`, one a line."""
        count = self.files - len(self.unanswered)
        lines = [each.shown() for each in self.diagnostics]
        if not lines and count:
            lines = [f"nothing wrong in {count} file{'s' if count != 1 else ''}"]
        lines += [f"not known: {path}" for path in self.unanswered]
        return "\n".join(lines or ["no files"]) + _more(self.total, self.next_offset) + self.caveat()


class Simulated(Said, kw_only=True):
    """What an edit would change. Nothing was written."""

    diff: str
    diff_complete: bool = True
    added: list[Diagnostic]
    removed: list[Diagnostic]
    remaining: int

    def text(self) -> str:
        """What would be wrong that is not, and what would not be wrong that is."""
        lines = [f"+ {each.shown()}" for each in self.added]
        lines += [f"- {each.shown()}" for each in self.removed]
        lines = lines or ["nothing would be wrong that is not, nor right that is wrong"]
        lines += [f"{self.remaining} as before"] if self.remaining else []
        return "\n".join(lines) + self.caveat()


class Preview(Said, kw_only=True):
    """A change that was not made: `apply_edit` with its `plan` makes it. An empty plan would change nothing."""

    title: str
    plan: str
    files: list[str]
    diff: str
    diff_complete: bool = True

    def text(self) -> str:
        """The patch, and how it is applied."""
        if not self.plan:
            return f"{self.title}: nothing would change" + self.caveat()
        cut = "" if self.diff_complete else CUT
        count = f"{len(self.files)} file{'s' if len(self.files) != 1 else ''}"
        how = f'{self.title}: {count}; nothing is written yet. apply_edit(plan="{self.plan}") writes it.'
        return f"{self.diff}{cut}\n{how}" + self.caveat()


class Offer(msgspec.Struct, kw_only=True):
    """An action that a server offers. What it does is `known` unless it is a command; `plan`: see `Preview`."""

    title: str
    kind: str
    server: str
    preferred: bool
    known: bool
    plan: str
    files: list[str]
    diff: str
    diff_complete: bool = True
    disabled: str = ""

    @property
    def cut(self) -> str:
        """Said behind a patch that is not whole."""
        return "" if self.diff_complete else CUT

    @property
    def how(self) -> str:
        """What to do to have it."""
        if not self.known:
            return "a command; ask for it by its title to see what it does"
        return f'apply_edit(plan="{self.plan}")' if self.plan else self.disabled or "nothing would change"


class Offers(Said, kw_only=True):
    """The actions for some lines."""

    actions: list[Offer]

    def text(self) -> str:
        """Title by title, with their patches."""
        parts = [
            f"{each.title} [{each.kind or 'command'}]: {each.how}\n{each.diff}{each.cut}".rstrip()
            for each in self.actions
        ]
        return "\n\n".join(parts or ["no actions"]) + self.caveat()


class Applied(msgspec.Struct, kw_only=True):
    """Files that were written."""

    title: str
    files: list[str]

    def text(self) -> str:
        """What was written."""
        return f"{self.title}: wrote {', '.join(self.files)}"


class CallSite(msgspec.Struct, kw_only=True):
    """A function that calls, or is called; `depth` is 1 for direct ones. `calls` are where, in `path` of a caller."""

    name: str
    kind: str
    depth: int
    place: Place
    calls: list[Place]


class Calls(Said, kw_only=True):
    """Callers or callees, each below the one that it was found from."""

    asked: Place
    direction: Literal["callers", "callees"]
    calls: list[CallSite]

    def text(self) -> str:
        """One function a line, indented by depth."""
        lines = [
            f"{'  ' * (each.depth - 1)}{each.kind} {each.name} at {each.place.path}:{each.place.line}"
            f" ({', '.join(str(call.line) for call in each.calls)})"
            for each in self.calls
        ]
        return "\n".join(lines or [f"no {self.direction}"]) + self.caveat()


class ServerState(msgspec.Struct, kw_only=True):
    """A language server of the workspace."""

    name: str
    version: str
    state: str
    readiness: Readiness
    files: list[str]


class Servers(msgspec.Struct, kw_only=True):
    """The language servers of the workspace, in the order in which they are chosen."""

    root: str
    servers: list[ServerState]

    def text(self) -> str:
        """One server a line."""
        lines = [
            f"{each.name} {each.version}".rstrip()
            + f": {each.state}, {each.readiness}; {', '.join(each.files)}"
            for each in self.servers
        ]
        return "\n".join([self.root, *lines])


def source(service: Service, answer: Answer[Any], *, more: str = "") -> Source:
    """Who gave an answer. `more` says why it is not the whole one for a reason of ours."""
    notes = [note for note in (answer.why, more) if note]
    return Source(
        name=service.name,
        version=service.version,
        readiness=answer.readiness,
        complete=answer.whole and not more,
        note="; ".join(notes),
    )


def said(sources: Iterable[Source]) -> dict[str, Any]:
    """The members that every result has. Several words of one server become one."""
    merged: dict[str, Source] = {}
    for each in sources:
        known = merged.get(each.name)
        if known is None or (known.complete and not each.complete):
            merged[each.name] = each
    return {"servers": list(merged.values()), "complete": all(each.complete for each in merged.values())}


def _more(total: int, next_offset: int | None) -> str:
    return f"\n({total} in all; go on with offset={next_offset})" if next_offset is not None else ""
