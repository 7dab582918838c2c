"""The tools over a workspace: where a name is defined and used, what it is, what a file holds, what is wrong.

Owns how a symbol is named and how an answer looks: lines from 1, columns in characters from 1, source lines
with every place, and always which server said so and whether that was all of it.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, TypeAlias

import msgspec

from adapters import kit
from adapters.lsp import wire
from adapters.lsp.client import Client
from adapters.lsp.text import find_name, from_units, lines_of, to_units
from adapters.lsp.wire import SEVERITIES, Severity
from adapters.lsp.workspace import Workspace

Json: TypeAlias = dict[str, Any]
From1 = Annotated[int, msgspec.Meta(ge=1)]
Name = Annotated[str, msgspec.Meta(description="Its name, or a dotted name as in `Class.method`.")]
File = Annotated[str, msgspec.Meta(description="A file, relative to the root.")]
Line = Annotated[From1 | None, msgspec.Meta(description="A line of that file, from 1.")]
Column = Annotated[From1 | None, msgspec.Meta(description="A character of that line, from 1.")]
MAX_ITEMS = 500
PUSH_S = 5.0


class Said(msgspec.Struct, kw_only=True):
    """Who answered, and whether it was the whole answer: a server that still loads gives a part."""

    server: str
    version: str
    complete: bool


class Place(msgspec.Struct, kw_only=True):
    """A place in a file. `text` is the source line; empty outside of the root."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    text: str


class Places(Said, kw_only=True):
    """Places, by path and line."""

    places: list[Place]

    def text(self) -> str:
        """`path:line:column: source`, one place a line."""
        lines = [f"{place.path}:{place.line}:{place.column}: {place.text.strip()}" for place in self.places]
        return "\n".join(lines or ["none found"]) + _caveat(self)


class Hover(Said, kw_only=True):
    """What the server shows for a symbol, as Markdown."""

    content: str
    place: Place

    def text(self) -> str:
        """The content alone."""
        return (self.content or "nothing known") + _caveat(self)


class Symbol(msgspec.Struct, kw_only=True):
    """A symbol of a file; `container` is the path of names above it."""

    name: str
    kind: str
    container: str
    line: int
    column: int
    end_line: int


class Symbols(Said, kw_only=True):
    """The symbols of a file, in the order of the file."""

    path: str
    symbols: list[Symbol]

    def text(self) -> str:
        """`line: kind container.name`, one symbol a line."""
        lines = [f"{each.line}: {each.kind} {_dotted(each)}" for each in self.symbols]
        return "\n".join(lines or ["no symbols"]) + _caveat(self)


class Diagnostic(msgspec.Struct, kw_only=True):
    """One thing that is wrong."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    severity: Severity
    code: str
    message: str


class Diagnostics(Said, kw_only=True):
    """What is wrong, by path and line. `files` is how many were asked about."""

    files: int
    diagnostics: list[Diagnostic]

    def text(self) -> str:
        """`path:line:column: severity: message`, one a line."""
        lines = [
            f"{d.path}:{d.line}:{d.column}: {d.severity}: {d.message} [{d.code}]" for d in self.diagnostics
        ]
        return "\n".join(lines or [f"nothing wrong in {self.files} files"]) + _caveat(self)


class Code:
    """The tools over one workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._space = workspace

    async def definition(
        self, ctx: kit.Context, symbol: Name = "", path: File = "", line: Line = None, column: Column = None
    ) -> Places:
        """Find where a symbol is defined.

        Name it by `symbol` alone, by `symbol` in a `path` (and `line`), or by `path`, `line` and `column`.
        """
        client, where = await self._locate(ctx, "definitionProvider", symbol, path, line, column)
        return await self._places(ctx, client, "textDocument/definition", where)

    async def references(
        self, ctx: kit.Context, symbol: Name = "", path: File = "", line: Line = None, column: Column = None
    ) -> Places:
        """Find every use of a symbol, its declaration included. It is named as for `definition`."""
        client, where = await self._locate(ctx, "referencesProvider", symbol, path, line, column)
        asked = {**where, "context": {"includeDeclaration": True}}
        return await self._places(ctx, client, "textDocument/references", asked)

    async def hover(
        self, ctx: kit.Context, symbol: Name = "", path: File = "", line: Line = None, column: Column = None
    ) -> Hover:
        """Show the type and the documentation of a symbol. It is named as for `definition`."""
        client, where = await self._locate(ctx, "hoverProvider", symbol, path, line, column)
        answer, complete = await self._ask(ctx, client, "textDocument/hover", where)
        found = wire.read(answer or {}, wire.Hover)
        asked = wire.read(where["position"], wire.Position)
        place = self._place(client, where["textDocument"]["uri"], found.range or wire.Range(asked, asked))
        return Hover(content=found.markdown, place=place, **_said(client, complete=complete))

    async def document_symbols(self, ctx: kit.Context, path: File) -> Symbols:
        """List the classes, functions and variables of a file."""
        client = await self._able(ctx, "documentSymbolProvider")
        found, complete = await self._symbols(ctx, client, path)
        return Symbols(path=path, symbols=found, **_said(client, complete=complete))

    async def diagnostics(self, ctx: kit.Context, path: str = "", severity: Severity = "hint") -> Diagnostics:
        """Tell what is wrong in a file, or in all files beneath the root.

        Args:
            path: A file, relative to the root; empty for all.
            severity: The least severity to tell.
        """
        client = await self._space.client(ctx)
        paths = [path] if path else self._space.files()
        found: list[Diagnostic] = []
        complete = len(paths) <= MAX_ITEMS
        for number, each in enumerate(paths[:MAX_ITEMS], 1):
            items, whole = await self._diagnose(ctx, client, each)
            complete = complete and whole
            found += items
            if len(paths) > 1:
                ctx.progress(number, len(paths), each)
        wanted = SEVERITIES[: SEVERITIES.index(severity) + 1]
        kept = sorted((d for d in found if d.severity in wanted), key=lambda d: (d.path, d.line, d.column))
        return Diagnostics(files=len(paths), diagnostics=kept, **_said(client, complete=complete))

    async def _able(self, ctx: kit.Context, ability: str) -> Client:
        """The server, if it can do what is wanted. Raises `kit.ToolError` where it cannot."""
        client = await self._space.client(ctx)
        if not client.capabilities.get(ability):
            raise kit.ToolError(
                "invalid_request", f"{client.name} offers no {ability.removesuffix('Provider')}"
            )
        return client

    async def _locate(
        self, ctx: kit.Context, ability: str, symbol: str, path: str, line: int | None, column: int | None
    ) -> tuple[Client, Json]:
        """The server and the position to ask it about. Raises `kit.ToolError` where there is no such one."""
        client = await self._able(ctx, ability)
        if not path:
            if not symbol or line or column:
                raise kit.ToolError(
                    "invalid_request", "say a symbol, or a path with a symbol or a line and column"
                )
            return client, await self._search(ctx, client, symbol)
        lines = lines_of(self._space.open(client, path))
        if line is not None and line > len(lines):
            raise kit.ToolError("invalid_request", f"{path} has {len(lines)} lines, not {line}")
        name = symbol.rpartition(".")[2]
        if line is not None and column is not None:
            at = column - 1
        elif line is not None and name:
            found = find_name(lines[line - 1], name)
            if found is None:
                raise kit.ToolError(
                    "invalid_request", f"{path}:{line} does not hold {name!r}: {lines[line - 1].strip()!r}"
                )
            at = found
        elif name and line is None and column is None:
            line, at = await self._find(ctx, client, path, symbol, lines)
        else:
            raise kit.ToolError("invalid_request", "with a path say a symbol, or a line and a column")
        units = to_units(lines[line - 1], at, client.encoding)
        return client, {
            "textDocument": {"uri": self._space.uri(path)},
            "position": {"line": line - 1, "character": units},
        }

    async def _find(
        self, ctx: kit.Context, client: Client, path: str, symbol: str, lines: list[str]
    ) -> tuple[int, int]:
        """Line (from 1) and column (from 0) of a name: of its declaration, else of its first use."""
        offers = client.capabilities.get("documentSymbolProvider")
        declared, _ = await self._symbols(ctx, client, path) if offers else ([], True)
        for each in declared:
            if symbol in (each.name, _dotted(each)) or _dotted(each).endswith("." + symbol):
                return each.line, each.column - 1
        name = symbol.rpartition(".")[2]
        for number, line in enumerate(lines, 1):
            column = find_name(line, name)
            if column is not None:
                return number, column
        raise kit.ToolError("invalid_request", f"{path} does not hold {name!r}")

    async def _search(self, ctx: kit.Context, client: Client, symbol: str) -> Json:
        """The position of the one symbol of that name in the workspace."""
        container, _, name = symbol.rpartition(".")
        if not client.capabilities.get("workspaceSymbolProvider"):
            raise kit.ToolError(
                "invalid_request", f"{client.name} cannot search by name alone; say a path too"
            )
        answer, _ = await self._ask(ctx, client, "workspace/symbol", {"query": name})
        found = [each for each in wire.read(answer or [], list[wire.Symbol]) if each.name == name]
        if container:
            found = [each for each in found if (each.container_name or "").endswith(container)]
        spots = {each.location for each in found if each.location is not None}
        if len(spots) != 1:
            places = sorted(f"{self._space.path(each.file)}:{each.span.start.line + 1}" for each in spots)
            listed = "; ".join(places[:20])
            told = f"{symbol} is ambiguous: {listed}; say a path too" if listed else f"no symbol {symbol}"
            raise kit.ToolError("invalid_request", told)
        location = spots.pop()
        line = location.span.start.line
        text = lines_of(self._space.open(client, self._space.path(location.file)))[line]
        begin = from_units(text, location.span.start.character, client.encoding)
        units = to_units(text, begin + (find_name(text[begin:], name) or 0), client.encoding)
        return {"textDocument": {"uri": location.file}, "position": {"line": line, "character": units}}

    async def _ask(self, ctx: kit.Context, client: Client, method: str, asked: Json) -> tuple[Any, bool]:
        """The server's answer, and whether it was the whole one."""
        return await self._space.settle(ctx, method, lambda: client.request(method, asked))

    async def _places(self, ctx: kit.Context, client: Client, method: str, asked: Json) -> Places:
        answer, complete = await self._ask(ctx, client, method, asked)
        listed = wire.read_locations(answer)
        places = [self._place(client, each.file, each.span) for each in listed[:MAX_ITEMS]]
        places.sort(key=lambda place: (place.path, place.line, place.column))
        return Places(places=places, **_said(client, complete=complete and len(listed) <= MAX_ITEMS))

    async def _symbols(self, ctx: kit.Context, client: Client, path: str) -> tuple[list[Symbol], bool]:
        lines = lines_of(self._space.open(client, path))
        asked: Json = {"textDocument": {"uri": self._space.uri(path)}}
        answer, complete = await self._ask(ctx, client, "textDocument/documentSymbol", asked)
        found: list[Symbol] = []

        def add(each: wire.Symbol, container: str) -> None:
            spot = each.spot
            symbol = Symbol(
                name=each.name,
                kind=each.kind_name,
                container=container or each.container_name or "",
                line=spot.start.line + 1,
                column=from_units(lines[spot.start.line], spot.start.character, client.encoding) + 1,
                end_line=(each.range or spot).end.line + 1,
            )
            found.append(symbol)
            for inner in each.children:
                add(inner, _dotted(symbol))

        for each in wire.read(answer or [], list[wire.Symbol]):
            add(each, "")
        return found, complete

    async def _diagnose(self, ctx: kit.Context, client: Client, path: str) -> tuple[list[Diagnostic], bool]:
        self._space.open(client, path)
        uri, ask = self._space.uri(path), "textDocument/diagnostic"
        asked: Json = {"textDocument": {"uri": uri}}
        if client.capabilities.get("diagnosticProvider") or ask in client.registered:
            answer, complete = await self._ask(ctx, client, ask, asked)
            items = wire.read(answer or {}, wire.Report).items
        else:
            items, complete = await self._pushed(client, uri)
        return [self._diagnostic(client, uri, each) for each in items], complete

    async def _pushed(self, client: Client, uri: str) -> tuple[list[wire.Diagnostic], bool]:
        """What a server that only pushes has said; incomplete where it has said nothing within `PUSH_S`."""
        for _ in range(int(PUSH_S / 0.1)):
            if uri in client.pushed and not client.working and client.quiet_s() > 0.3:
                return wire.read(client.pushed[uri]["diagnostics"], list[wire.Diagnostic]), True
            await asyncio.sleep(0.1)
        return [], False

    def _diagnostic(self, client: Client, uri: str, item: wire.Diagnostic) -> Diagnostic:
        place = self._place(client, uri, item.range)
        return Diagnostic(
            path=place.path,
            line=place.line,
            column=place.column,
            end_line=place.end_line,
            end_column=place.end_column,
            severity=item.severity_name,
            code=str(item.code) if item.code is not None else "",
            message=item.message,
        )

    def _place(self, client: Client, uri: str, span: wire.Range) -> Place:
        path = self._space.path(uri)
        lines = [] if path.startswith("/") else lines_of(self._space.read(path))

        def column(end: wire.Position) -> int:
            if end.line >= len(lines):
                return end.character + 1
            return from_units(lines[end.line], end.character, client.encoding) + 1

        first = span.start.line
        return Place(
            path=path,
            line=first + 1,
            column=column(span.start),
            end_line=span.end.line + 1,
            end_column=column(span.end),
            text=lines[first] if first < len(lines) else "",
        )


def _said(client: Client, *, complete: bool) -> Json:
    return {"server": client.name, "version": client.version, "complete": complete}


def _caveat(said: Said) -> str:
    return "" if said.complete else f"\n({said.server} is still loading: there may be more)"


def _dotted(symbol: Symbol) -> str:
    return f"{symbol.container}.{symbol.name}" if symbol.container else symbol.name
