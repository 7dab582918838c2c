"""The tools that change: renaming, actions, formatting, each shown as a patch first, and the writing of one.

Owns the drafts of what servers want changed. The writing itself is the disk's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeAlias

import msgspec

from adapters import kit
from adapters.lsp import edits, wire
from adapters.lsp.address import Address, in_text
from adapters.lsp.answer import Answer
from adapters.lsp.edits import Plan
from adapters.lsp.finder import Finder
from adapters.lsp.meter import Meter
from adapters.lsp.navigation import Column, File, From1, Line, Name
from adapters.lsp.plans import Plans
from adapters.lsp.results import Applied, Offer, Offers, Preview, Source, said, source
from adapters.lsp.service import Service
from adapters.lsp.text import Text
from adapters.lsp.uris import path_of

Json: TypeAlias = dict[str, Any]
Tab = Annotated[int, msgspec.Meta(ge=1, le=16, description="The width of a tab.")]

MAX_DIFF = 60_000
"""Characters of a patch that are shown; what is applied is always the whole."""
MAX_OFFERS, MAX_OFFER_DIFF = 40, 6_000
_TURNS = 3


class Changing:
    """The tools over one workspace."""

    def __init__(self, finder: Finder) -> None:
        self._finder, self._disk = finder, finder.disk
        self._plans = Plans()

    async def rename(
        self,
        ctx: kit.Context,
        new_name: str,
        symbol: Name = "",
        path: File = "",
        line: Line = None,
        column: Column = None,
    ) -> Preview:
        """Show the patch that renames a symbol everywhere. Nothing is written: `apply_edit` does that.

        It is named as for `definition`.
        """
        if not new_name.strip():
            raise kit.ToolError("invalid_request", "say a new name")
        if not new_name.isprintable():
            # Some servers write whatever they are given.
            raise kit.ToolError(
                "invalid_request", "a new name holds no line breaks and no control characters"
            )
        asked = Address(symbol, path, line, column)
        async with self._finder.at(Meter(ctx), "textDocument/rename", asked) as spot:
            service, sources = spot.service, list(spot.sources)

            async def ask() -> wire.WorkspaceEdit | None:
                answer = await service.ask("textDocument/rename", {**spot.params, "newName": new_name})
                sources[len(spot.sources) :] = [source(service, answer, more=service.blind)]
                return wire.optional(answer.value, wire.WorkspaceEdit)

            plan = await self._plan(service, f"rename to {new_name}", ask)
            return await self._preview(plan, sources)

    async def code_action(
        self,
        ctx: kit.Context,
        path: File,
        line: Annotated[int, msgspec.Meta(ge=1, description="A line of that file, from 1.")],
        end_line: Line = None,
        symbol: Annotated[str, msgspec.Meta(description="Only for this text of the line.")] = "",
        kind: str = "",
        title: str = "",
    ) -> Offers:
        """List what servers offer to do about some lines, each with its patch. Nothing is written: `apply_edit` does.

        Args:
            end_line: The last of the lines; only `line` where it is left out.
            kind: Only actions of this kind, as `quickfix`, `refactor` or `source.organizeImports`.
            title: Only the action with this title; one that is a command is then carried out to see its patch.
        """
        path, meter = self._disk.relative(path), Meter(ctx)
        found: list[Offer] = []
        sources: list[Source] = []
        refused: list[kit.ToolError] = []
        able = 0
        for service in self._finder.space.for_file(path):
            try:
                async with service.asking(meter) as client:
                    if not client.can("textDocument/codeAction"):
                        continue
                    able += 1
                    with service.shown(path) as text:
                        span = _span(path, Text(text), line, end_line or line, symbol)
                        found += await self._offers(service, path, Text(text), span, kind, title, sources)
            except kit.ToolError as fault:
                refused.append(fault)
        if refused and not sources:
            raise refused[0]
        if not able:
            raise kit.ToolError("invalid_request", f"no language server of {path} offers code actions")
        if title and not found:
            raise kit.ToolError("invalid_request", f"no action is called {title!r} here; ask without a title")
        found.sort(key=lambda each: not each.preferred)
        return Offers(actions=found, **said(sources))

    async def format(
        self,
        ctx: kit.Context,
        path: File,
        line: Line = None,
        end_line: Line = None,
        tab_size: Tab = 4,
        tabs: bool = False,  # noqa: FBT001, FBT002 - a parameter of a tool is always given by name
    ) -> Preview:
        """Show the patch that formats a file, or some lines of it. Nothing is written: `apply_edit` does that.

        Args:
            line: The first line to format; the whole file where it is left out.
            end_line: The last line to format.
            tabs: Whether to indent with tabs.
        """
        path = self._disk.relative(path)
        method = "textDocument/rangeFormatting" if line else "textDocument/formatting"
        async with self._finder.able(Meter(ctx), method, path) as service:
            sources: list[Source] = []

            async def ask() -> wire.WorkspaceEdit | None:
                with service.shown(path) as text:
                    params = {
                        **service.document(path),
                        "options": {"tabSize": tab_size, "insertSpaces": not tabs},
                    }
                    if line:
                        span = _span(path, Text(text), line, end_line or line, "")
                        params["range"] = _range(service, Text(text), span)
                    answer = await service.ask(method, params, settle=False)
                    sources[:] = [source(service, answer)]
                    steps = wire.listed(answer.value, wire.TextEdit)
                    return wire.WorkspaceEdit(changes={self._disk.uri(path): steps})

            plan = await self._plan(service, f"format {path}", ask)
            return await self._preview(plan, sources)

    async def apply_edit(self, plan: str) -> Applied:
        """Write a change that was shown, to all of its files or to none.

        It is refused where one of the files has changed since.

        Args:
            plan: The plan of a preview.
        """
        found = self._plans.get(plan)
        await asyncio.to_thread(self._disk.write, found.changes)
        self._plans.drop(plan)
        return Applied(title=found.title, files=[each.path for each in found.changes])

    async def _plan(
        self, service: Service, title: str, ask: Callable[[], Awaitable[wire.WorkspaceEdit | None]]
    ) -> Plan:
        """What a server's edit makes of the files, which are the ones that the server knew. Raises `kit.ToolError`."""
        for _ in range(_TURNS):
            known = service.stamps
            edit = await ask()
            plan = await asyncio.to_thread(self._draft, service, title, [edit] if edit else [])
            now = (await self._disk.look()).stamps
            if all(known.get(each.path) == now.get(each.path) for each in plan.changes):
                return plan
            await service.follow_disk()
        raise kit.ToolError("io", f"{title}: the files change while they are looked at; ask again")

    def _draft(self, service: Service, title: str, wanted: list[wire.WorkspaceEdit]) -> Plan:
        steps = [step for edit in wanted for step in edit.steps]
        changes = edits.draft(
            wire.WorkspaceEdit(document_changes=steps),
            lambda uri: self._disk.relative(path_of(uri)),
            self._disk.read_exactly,
            service.client.encoding,
        )
        return edits.plan(title, changes)

    async def _preview(self, plan: Plan, sources: list[Source]) -> Preview:
        if plan.changes:
            self._plans.add(plan)
        diff = await asyncio.to_thread(edits.diff, plan.changes)
        return Preview(
            title=plan.title,
            plan=plan.id if plan.changes else "",
            files=[each.path for each in plan.changes],
            diff=edits.cut(diff, MAX_DIFF),
            diff_complete=len(diff) <= MAX_DIFF,
            **said(sources),
        )

    async def _offers(
        self,
        service: Service,
        path: str,
        text: Text,
        span: tuple[int, int],
        kind: str,
        title: str,
        sources: list[Source],
    ) -> list[Offer]:
        about, known = _range(service, text, span), service.stamps
        wrong = await service.diagnose(path)
        context: Json = {
            "diagnostics": [raw for raw in wrong.value if _touches(raw, about)],
            "triggerKind": 1,
        }
        context |= {"only": [kind]} if kind else {}
        params = {**service.document(path), "range": about, "context": context}
        answer: Answer[msgspec.Raw] = await service.ask("textDocument/codeAction", params)
        listed = wire.listed(answer.value, msgspec.Raw)
        read = [(raw, wire.read(raw, wire.Action)) for raw in listed]
        kept = [(raw, each) for raw, each in read if not title or each.title == title]
        more = f"only the first {MAX_OFFERS} are shown" if len(kept) > MAX_OFFERS else ""
        sources += [source(service, wrong), source(service, answer, more=more)]
        found: list[Offer] = []
        for raw, action in kept[:MAX_OFFERS]:
            if kind and action.kind and not f"{action.kind}.".startswith(f"{kind}."):
                continue
            wanted = await self._wanted(service, raw, action, carry_out=bool(title))
            plan = await asyncio.to_thread(self._draft, service, action.title, wanted)
            known_now = bool(title) or bool(wanted) or action.order is None
            found.append(await self._offer(service, action, plan, known=known_now))
        now = (await self._disk.look()).stamps
        if known.get(path) != now.get(path):
            raise kit.ToolError("io", f"{path} has changed while it was looked at; ask again")
        return found

    async def _wanted(
        self, service: Service, raw: msgspec.Raw, action: wire.Action, *, carry_out: bool
    ) -> list[wire.WorkspaceEdit]:
        """The edits of an action: those that it has, those that it is resolved to, those that its command asks for."""
        if action.edit is None and service.client.option("textDocument/codeAction", "resolveProvider"):
            resolved = await service.ask("codeAction/resolve", _params(raw), settle=False)
            action = wire.read(resolved.value, wire.Action)
        found = [action.edit] if action.edit else []
        if action.order is None or not carry_out or action.disabled:
            return found
        async with service.collecting() as asked:
            order = {"command": action.order.command, "arguments": action.order.arguments}
            await service.ask("workspace/executeCommand", order, settle=False)
        return found + asked

    async def _offer(self, service: Service, action: wire.Action, plan: Plan, *, known: bool) -> Offer:
        if plan.changes:
            self._plans.add(plan)
        diff = await asyncio.to_thread(edits.diff, plan.changes)
        return Offer(
            title=action.title,
            kind=action.kind,
            server=service.name,
            preferred=action.is_preferred,
            known=known,
            plan=plan.id if plan.changes else "",
            files=[each.path for each in plan.changes],
            diff=edits.cut(diff, MAX_OFFER_DIFF),
            diff_complete=len(diff) <= MAX_OFFER_DIFF,
            disabled=action.disabled.reason if action.disabled else "",
        )


def _span(path: str, text: Text, line: From1, end_line: From1, symbol: str) -> tuple[int, int]:
    """Offsets of whole lines, or of a text in the first one. Raises `kit.ToolError` (`invalid_request`)."""
    count = len(text.lines)
    if end_line < line or end_line > count:
        raise kit.ToolError(
            "invalid_request", f"{path} has {count} lines; {line} to {end_line} are none of them"
        )
    begin = text.starts[line - 1]
    if not symbol:
        return begin, text.starts[end_line - 1] + len(text.lines[end_line - 1])
    held = text.lines[line - 1]
    column = held.find(symbol) if symbol in held else in_text(held, symbol)
    if column is None:
        raise kit.ToolError("invalid_request", f"{path}:{line} does not hold {symbol!r}: {held.strip()!r}")
    return begin + column, begin + column + len(symbol)


def _range(service: Service, text: Text, span: tuple[int, int]) -> Json:
    (line, units), (end_line, end_units) = (text.position(each, service.client.encoding) for each in span)
    return {"start": {"line": line, "character": units}, "end": {"line": end_line, "character": end_units}}


def _touches(raw: msgspec.Raw, about: Json) -> bool:
    found, span = wire.read(raw, wire.Diagnostic).range, msgspec.convert(about, wire.Range)
    return found.start <= span.end and span.start <= found.end


def _params(raw: msgspec.Raw) -> Json:
    return msgspec.json.decode(raw, type=dict[str, Any])
