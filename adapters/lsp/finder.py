"""Finds the server that a question is for, and the position that an address means.

Owns the order in which servers are tried, the symbols of a file and the search by name. Knows no tool.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeAlias

import msgspec

from adapters import kit
from adapters.lsp import address, wire
from adapters.lsp.address import Address, Declared
from adapters.lsp.answer import Answer
from adapters.lsp.meter import Meter
from adapters.lsp.results import Source, Symbol, source
from adapters.lsp.service import Service
from adapters.lsp.text import Text, find_name, from_units
from adapters.lsp.workspace import Workspace

Json: TypeAlias = dict[str, Any]

DOCUMENT_SYMBOL = "textDocument/documentSymbol"
WORKSPACE_SYMBOL = "workspace/symbol"
WORDS = {
    "textDocument/definition": "definition",
    "textDocument/references": "references",
    "textDocument/hover": "hover",
    DOCUMENT_SYMBOL: "document symbols",
    WORKSPACE_SYMBOL: "search by name",
    "textDocument/rename": "rename",
    "textDocument/codeAction": "code actions",
    "textDocument/formatting": "formatting",
    "textDocument/rangeFormatting": "formatting of lines",
    "textDocument/prepareCallHierarchy": "call hierarchy",
}


class Spot(msgspec.Struct, kw_only=True):
    """A position, at the server that is asked about it: its file is shown there. Line and column are from 0."""

    service: Service
    path: str
    text: Text
    line: int
    column: int
    sources: list[Source]
    """Who helped to find it."""

    @property
    def params(self) -> Json:
        """What the server is asked with."""
        return self.service.at(self.path, self.text, self.line, self.column)


class Found(msgspec.Struct, kw_only=True):
    """What the search by name gave: symbols beneath the root, and who said so."""

    symbols: list[Symbol]
    sources: list[Source]


class Finder:
    """Over one workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self.space = workspace
        self.disk = workspace.disk

    @asynccontextmanager
    async def able(
        self, meter: Meter, method: str, path: str, *, alone: bool = False
    ) -> AsyncGenerator[Service]:
        """The first server of a file that offers a method. Raises `kit.ToolError` where none does, or could start."""
        async with AsyncExitStack() as stack:
            yield await self._enter(stack, meter, method, self.space.for_file(path), alone=alone)

    @asynccontextmanager
    async def at(self, meter: Meter, method: str, asked: Address) -> AsyncGenerator[Spot]:
        """The position that is meant. Raises `kit.ToolError` where there is none, or more than one."""
        address.check(asked)
        sources: list[Source] = []
        if not asked.path:
            asked, sources = await self._by_name(meter, asked)
        path = self.disk.relative(asked.path)
        async with self.able(meter, method, path) as service:
            with service.shown(path) as shown:
                text = Text(shown)
                if asked.line is not None:
                    line, column = address.in_line(asked, text.lines)
                else:
                    declared = await self._declared(service, path, text)
                    line, column = address.in_file(asked, declared, text.lines)
                yield Spot(service=service, path=path, text=text, line=line, column=column, sources=sources)

    async def symbols(self, service: Service, path: str, text: Text) -> Answer[list[Symbol]]:
        """The symbols of a file that is shown, in the order in which the server gives them."""
        answer = await service.ask(DOCUMENT_SYMBOL, service.document(path), settle=False)
        encoding = service.client.encoding
        found: list[Symbol] = []

        def add(each: wire.Symbol, container: str) -> None:
            spot = each.spot
            symbol = Symbol(
                name=each.name,
                kind=each.kind_name,
                container=container or each.container_name or "",
                path=path,
                line=spot.start.line + 1,
                column=from_units(text.line(spot.start.line), spot.start.character, encoding) + 1,
                end_line=(each.range or spot).end.line + 1,
            )
            found.append(symbol)
            for inner in each.children or []:
                add(inner, symbol.dotted)

        for each in wire.listed(answer.value, wire.Symbol):
            add(each, "")
        return Answer(found, answer.whole, answer.readiness, answer.why)

    async def search(self, meter: Meter, query: str) -> Found:
        """The symbols that servers find for a name, those of every server that can. Raises `kit.ToolError`."""
        symbols: list[Symbol] = []
        sources: list[Source] = []
        refused: list[kit.ToolError] = []
        for service in self.space.services:
            async with AsyncExitStack() as stack:
                try:
                    await self._enter(stack, meter, WORKSPACE_SYMBOL, [service])
                except kit.ToolError as fault:
                    refused.append(fault)
                    continue
                # Servers that know no project yet find nothing, or refuse.
                await self._show_one(stack, service)
                answer = await service.ask(WORKSPACE_SYMBOL, {"query": query})
                listed = wire.listed(answer.value, wire.Symbol)
                symbols += await asyncio.to_thread(self._workspace_symbols, service, listed)
                more = f"only the first {MAX_SYMBOLS} are looked at" if len(listed) > MAX_SYMBOLS else ""
                more = more or service.blind or service.server.search
                sources.append(source(service, answer, more=more))
        if not sources:
            raise kit.ToolError(refused[0].code, "; ".join(map(str, refused)) + "; say a path too")
        return Found(symbols=symbols, sources=sources)

    async def _enter(
        self,
        stack: AsyncExitStack,
        meter: Meter,
        method: str,
        services: list[Service],
        *,
        alone: bool = False,
    ) -> Service:
        """The first server that offers a method, kept until the stack ends. Raises `kit.ToolError`."""
        fault: kit.ToolError | None = None
        for service in services:
            async with AsyncExitStack() as trial:
                try:
                    client = await trial.enter_async_context(service.asking(meter, alone=alone))
                except kit.ToolError as met:
                    fault = fault or met
                    continue
                if client.can(method) and method not in service.server.unlike:
                    stack.push_async_exit(trial.pop_all())
                    return service
        names = " and ".join(service.name for service in services)
        word = WORDS.get(method, method)
        raise fault or kit.ToolError("invalid_request", f"{names} offers no {word}")

    async def _declared(self, service: Service, path: str, text: Text) -> list[Declared]:
        if not service.client.can(DOCUMENT_SYMBOL):
            return []
        found = await self.symbols(service, path, text)
        return [
            Declared(each.name, address.dots(each.dotted), each.line - 1, each.column - 1)
            for each in found.value
        ]

    async def _by_name(self, meter: Meter, asked: Address) -> tuple[Address, list[Source]]:
        """The one declaration of that name in the workspace, as an address."""
        name = address.last(asked.symbol)
        found = await self.search(meter, name)
        named = [
            each for each in found.symbols if each.name == name and address.matches(asked.symbol, each.dotted)
        ]
        # A server may not say what a symbol is in, and then it may be the one.
        named = named or [each for each in found.symbols if each.name == name and not each.container]
        spots = sorted({(each.path, each.line, each.column) for each in named})
        container = address.dots(asked.symbol).rpartition(".")[0]
        if not spots and container:
            # Some servers search for what is at the top of files alone.
            above = (await self.search(meter, address.last(container))).symbols
            paths = {each.path for each in above if address.matches(container, each.dotted)}
            if len(paths) == 1:
                return Address(asked.symbol, paths.pop()), found.sources
        if len(spots) == 1:
            path, line, column = spots[0]
            return Address(asked.symbol, path, line, column), found.sources
        caveats = "".join(f" ({each.note})" for each in found.sources if each.note)
        if not spots:
            raise kit.ToolError("invalid_request", f"no symbol {asked.symbol}{caveats}")
        places = address.listed([f"{path}:{line}" for path, line, _ in spots])
        raise kit.ToolError(
            "invalid_request", f"{asked.symbol} is ambiguous: {places}; say a path too{caveats}"
        )

    async def _show_one(self, stack: AsyncExitStack, service: Service) -> None:
        if service.open_count:
            return
        paths, _ = await self.space.files(service)
        for path in paths:
            # One that is too large or no text shows nothing.
            with contextlib.suppress(kit.ToolError):
                stack.enter_context(service.shown(path))
                return

    def _workspace_symbols(self, service: Service, listed: list[wire.Symbol]) -> list[Symbol]:
        """Those beneath the root. Where a server gives the whole declaration, the name in it is found."""
        texts: dict[str, Text | None] = {}
        found: list[Symbol] = []
        for each in listed[:MAX_SYMBOLS]:
            path = self.disk.shown(each.location.file if each.location else "")
            if path.startswith("/") or ":" in path.partition("/")[0]:
                continue
            if path not in texts:
                try:
                    texts[path] = Text(self.disk.read(path))
                except kit.ToolError as fault:
                    texts[path] = None if fault.code == "denied" else Text("")
            text = texts[path]
            if text is None:
                continue  # a server follows links that lead out of the root
            container, _, name = address.dots(each.name.removesuffix("()")).rpartition(".")
            line, column = _name_within(text, each.spot, name, service)
            outer = each.container_name or ""
            if service.server.whole_names:
                outer = outer.removesuffix(name).removesuffix(".")
            above = ".".join(part for part in (outer, container) if part)
            found.append(
                Symbol(
                    name=name,
                    kind=each.kind_name,
                    container=address.dots(above),
                    path=path,
                    line=line + 1,
                    column=column + 1,
                    end_line=each.spot.end.line + 1,
                )
            )
        return found


MAX_SYMBOLS = 20_000
_DECLARATION_LINES = 30


def _name_within(text: Text, span: wire.Range, name: str, service: Service) -> tuple[int, int]:
    first = span.start.line
    begin = from_units(text.line(first), span.start.character, service.client.encoding)
    for number in range(first, min(span.end.line, first + _DECLARATION_LINES) + 1):
        line = text.line(number)
        at = begin if number == first else 0
        found = find_name(line[at:], name)
        if found is not None:
            return number, at + found
    return first, begin
