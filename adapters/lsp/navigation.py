"""The tools that look: where a name is defined and used, what it is, who calls it, what there is.

Owns how these questions are put and their answers laid out. Changes nothing.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from adapters import kit
from adapters.lsp import wire
from adapters.lsp.address import Address, matches
from adapters.lsp.answer import Answer
from adapters.lsp.finder import DOCUMENT_SYMBOL, Finder, Spot
from adapters.lsp.meter import Meter
from adapters.lsp.places import Texts, page
from adapters.lsp.results import Calls, CallSite, Hover, Place, Places, Source, Symbols, said, source
from adapters.lsp.text import Text

Json: TypeAlias = dict[str, Any]
From1 = Annotated[int, msgspec.Meta(ge=1)]
Name = Annotated[
    str,
    msgspec.Meta(description="Its name, or a dotted name as in `Class.method`; with `line`, its text there."),
]
File = Annotated[str, msgspec.Meta(description="A file, relative to the root.")]
Line = Annotated[From1 | None, msgspec.Meta(description="A line of that file, from 1.")]
Column = Annotated[From1 | None, msgspec.Meta(description="A character of that line, from 1.")]
Offset = Annotated[int, msgspec.Meta(ge=0, description="How many to leave out: where the last page ended.")]
Limit = Annotated[int, msgspec.Meta(ge=1, le=1000, description="How many to give at most.")]
Depth = Annotated[int, msgspec.Meta(ge=1, le=5, description="How many calls away.")]

MAX_CALLS = 300
_SOME = 100


class Navigation:
    """The tools over one workspace."""

    def __init__(self, finder: Finder) -> None:
        self._finder = finder

    async def definition(
        self, ctx: kit.Context, symbol: Name = "", path: File = "", line: Line = None, column: Column = None
    ) -> Places:
        """Find where a symbol is defined.

        Name it by `symbol` alone, by `symbol` in a `path` (and `line`), or by `path`, `line` and `column`.
        """
        asked = Address(symbol, path, line, column)
        async with self._finder.at(Meter(ctx), "textDocument/definition", asked) as spot:
            answer = await spot.service.ask("textDocument/definition", spot.params)
            return await self._places(spot, answer, 0, _SOME, "")

    async def references(
        self,
        ctx: kit.Context,
        symbol: Name = "",
        path: File = "",
        line: Line = None,
        column: Column = None,
        offset: Offset = 0,
        limit: Limit = _SOME,
    ) -> Places:
        """Find every use of a symbol, its declaration included. It is named as for `definition`."""
        asked = Address(symbol, path, line, column)
        async with self._finder.at(Meter(ctx), "textDocument/references", asked) as spot:
            params = {**spot.params, "context": {"includeDeclaration": True}}
            answer = await spot.service.ask("textDocument/references", params)
            return await self._places(spot, answer, offset, limit, spot.service.blind)

    async def hover(
        self, ctx: kit.Context, symbol: Name = "", path: File = "", line: Line = None, column: Column = None
    ) -> Hover:
        """Show the type and the documentation of a symbol. It is named as for `definition`."""
        asked = Address(symbol, path, line, column)
        async with self._finder.at(Meter(ctx), "textDocument/hover", asked) as spot:
            answer = await spot.service.ask("textDocument/hover", spot.params)
            found = wire.optional(answer.value, wire.Hover) or wire.Hover()
            place = self._asked(spot, found.range)
            sources = [*spot.sources, source(spot.service, answer)]
            return Hover(content=found.markdown, place=place, **said(sources))

    async def document_symbols(
        self, ctx: kit.Context, path: File, offset: Offset = 0, limit: Limit = 500
    ) -> Symbols:
        """List the classes, functions and variables of a file."""
        path = self._finder.disk.relative(path)
        async with self._finder.able(Meter(ctx), DOCUMENT_SYMBOL, path) as service:
            with service.shown(path) as text:
                answer = await self._finder.symbols(service, path, Text(text))
                shown, following = page(answer.value, offset, limit)
                return Symbols(
                    symbols=list(shown),
                    total=len(answer.value),
                    next_offset=following,
                    **said([source(service, answer)]),
                )

    async def workspace_symbols(
        self, ctx: kit.Context, query: str, kind: str = "", offset: Offset = 0, limit: Limit = _SOME
    ) -> Symbols:
        """Search the workspace for classes, functions and variables by name.

        Args:
            query: A name or a part of one; dotted as in `Class.method` it has to be whole.
            kind: Only symbols of this kind, as `class`, `method`, `function` or `variable`.
        """
        found = await self._finder.search(Meter(ctx), query.rpartition(".")[2])
        named = found.symbols
        if "." in query:
            whole = [each for each in named if matches(query, each.dotted)]
            # A server may not say what a symbol is in, and then it may be the one.
            named = whole or [
                each for each in named if not each.container and each.name == query.rpartition(".")[2]
            ]
        kept = {
            (each.path, each.line, each.column, each.name): each
            for each in named
            if not kind or each.kind == kind
        }
        ordered = [kept[key] for key in sorted(kept)]
        # What is called just so comes first, since servers also give what is merely alike.
        ordered.sort(key=lambda each: each.name != query.rpartition(".")[2])
        shown, following = page(ordered, offset, limit)
        return Symbols(symbols=list(shown), total=len(ordered), next_offset=following, **said(found.sources))

    async def call_hierarchy(
        self,
        ctx: kit.Context,
        symbol: Name = "",
        path: File = "",
        line: Line = None,
        column: Column = None,
        direction: Literal["callers", "callees"] = "callers",
        depth: Depth = 1,
    ) -> Calls:
        """Find who calls a function, or what it calls, and who calls those in turn. It is named as for `definition`."""
        asked = Address(symbol, path, line, column)
        meter = Meter(ctx)
        async with self._finder.at(meter, "textDocument/prepareCallHierarchy", asked) as spot:
            walk = _Walk(spot, Texts(self._finder.disk, {spot.path: spot.text.whole}), direction, meter)
            await walk.run(depth)
            return Calls(
                asked=self._asked(spot, None), direction=direction, calls=walk.found, **said(walk.sources)
            )

    def _asked(self, spot: Spot, span: wire.Range | None) -> Place:
        at = wire.Position(spot.line, spot.params["position"]["character"])
        texts = Texts(self._finder.disk, {spot.path: spot.text.whole})
        uri = self._finder.disk.uri(spot.path)
        return texts.place(uri, span or wire.Range(at, at), spot.service.client.encoding)

    async def _places(
        self, spot: Spot, answer: Answer[msgspec.Raw], offset: int, limit: int, more: str
    ) -> Places:
        encoding, asked = spot.service.client.encoding, self._asked(spot, None)

        def lay_out() -> Places:
            """In a worker thread: there may be tens of thousands."""
            disk = self._finder.disk
            known = {
                (disk.shown(each.file), each.span.start): each
                for each in wire.listed(answer.value, wire.Location)
            }
            shown, following = page(sorted(known), offset, limit)
            texts = Texts(disk, {spot.path: spot.text.whole})
            return Places(
                asked=asked,
                places=[texts.place(known[key].file, known[key].span, encoding) for key in shown],
                total=len(known),
                next_offset=following,
                **said([*spot.sources, source(spot.service, answer, more=more)]),
            )

        return await asyncio.to_thread(lay_out)


class _Walk:
    """Through the hierarchy of calls, each function once."""

    def __init__(
        self, spot: Spot, texts: Texts, direction: Literal["callers", "callees"], meter: Meter
    ) -> None:
        self.found: list[CallSite] = []
        self.sources: list[Source] = list(spot.sources)
        self._spot, self._service, self._texts, self._meter = spot, spot.service, texts, meter
        self._incoming = direction == "callers"
        self._seen: set[tuple[str, wire.Position]] = set()

    async def run(self, depth: int) -> None:
        answer = await self._service.ask("textDocument/prepareCallHierarchy", self._spot.params)
        self._note(answer)
        for raw in wire.listed(answer.value, msgspec.Raw):
            item = wire.read(raw, wire.CallItem)
            self._seen.add((item.uri, item.selection_range.start))
            await self._below(raw, item, 1, depth)

    async def _below(self, raw: msgspec.Raw, item: wire.CallItem, level: int, depth: int) -> None:
        method = "callHierarchy/incomingCalls" if self._incoming else "callHierarchy/outgoingCalls"
        answer = await self._service.ask(method, {"item": raw})
        self._note(answer)
        calls = wire.listed(answer.value, wire.Call)
        others = [(call, call.from_ if self._incoming else call.to) for call in calls]
        read = [(call, other, wire.read(other, wire.CallItem)) for call, other in others]
        for call, other, target in sorted(
            read, key=lambda each: (each[2].uri, each[2].selection_range.start)
        ):
            if len(self.found) >= MAX_CALLS:
                why = f"only the first {MAX_CALLS} are looked at"
                self.sources.append(source(self._service, answer, more=why))
                return
            self.found.append(self._site(call, target, level, target.uri if self._incoming else item.uri))
            key = (target.uri, target.selection_range.start)
            if level < depth and key not in self._seen:
                self._seen.add(key)
                self._meter.line(f"{target.name}, {len(self.found)} found")
                await self._below(other, target, level + 1, depth)

    def _site(self, call: wire.Call, target: wire.CallItem, level: int, calling: str) -> CallSite:
        encoding = self._service.client.encoding
        return CallSite(
            name=target.name,
            kind=wire.kind_name(target.kind),
            depth=level,
            place=self._texts.place(target.uri, target.selection_range, encoding),
            calls=[self._texts.place(calling, span, encoding) for span in call.from_ranges],
        )

    def _note(self, answer: Answer[msgspec.Raw]) -> None:
        self.sources.append(source(self._service, answer, more=self._service.blind))
