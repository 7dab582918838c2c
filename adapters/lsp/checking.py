"""The tools that judge: what is wrong in files, and what an edit would make of it.

Owns the going through files and the comparing of diagnostics. Changes nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from typing import Annotated

import msgspec

from adapters import kit
from adapters.lsp import edits, wire
from adapters.lsp.edits import Change
from adapters.lsp.meter import Meter
from adapters.lsp.navigation import File, Limit, Offset
from adapters.lsp.places import Texts
from adapters.lsp.results import Diagnostic, Diagnostics, Simulated, Source, said, source
from adapters.lsp.service import Service
from adapters.lsp.wire import SEVERITIES, Severity
from adapters.lsp.workspace import Workspace

Also = Annotated[list[str], msgspec.Meta(max_length=50, description="Other files that the edit may break.")]


MAX_DIFF = 20_000
"""Characters of an edit's own patch that are given back."""


class Checking:
    """The tools over one workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._space, self._disk = workspace, workspace.disk

    async def diagnostics(
        self,
        ctx: kit.Context,
        path: str = "",
        severity: Severity = "hint",
        offset: Offset = 0,
        limit: Limit = 200,
    ) -> Diagnostics:
        """Tell what is wrong in a file, or in all files beneath a directory, as they are on the disk now.

        Args:
            path: A file or a directory, relative to the root; empty for all.
            severity: The least severity to tell.
        """
        meter = Meter(ctx)
        wanted = SEVERITIES[: SEVERITIES.index(severity) + 1]
        kept: list[Diagnostic] = []
        total, unanswered = 0, list[str]()
        async with AsyncExitStack() as stack:
            by_path, sources = await self._to_ask(stack, meter, path)
            for number, (each, services) in enumerate(sorted(by_path.items()), 1):
                found: list[Diagnostic] = []
                answered, fault = False, None
                for service in services:
                    try:
                        mine, who, known = await self._diagnose(service, each)
                    except kit.ToolError as met:
                        fault = fault or met
                        mine, who, known = [], _partial(service, str(met)), False
                    found += mine
                    sources.append(who)
                    answered = answered or known
                if fault is not None and not answered and len(by_path) == 1:
                    raise fault
                if not answered:
                    unanswered.append(each)
                for item in sorted(found, key=_order):
                    if item.severity in wanted:
                        if offset <= total < offset + limit:
                            kept.append(item)
                        total += 1
                if len(by_path) > 1:
                    meter.step(number, len(by_path), each)
        return Diagnostics(
            files=len(by_path),
            diagnostics=kept,
            total=total,
            unanswered=unanswered,
            next_offset=offset + limit if offset + limit < total else None,
            **said(sources),
        )

    async def simulate_edit(
        self,
        ctx: kit.Context,
        path: File,
        old: str = "",
        new: str = "",
        text: str | None = None,
        also: Also | None = None,
    ) -> Simulated:
        """Tell what would be wrong after an edit that is not made: nothing is written.

        Args:
            old: What is to be replaced: exactly as in the file, and there only once.
            new: What is to stand in its place.
            text: In place of both: the whole new text of the file.
        """
        path, others = self._disk.relative(path), [self._disk.relative(each) for each in also or []]
        before = self._disk.read(path)
        after = text if text is not None else _replaced(path, before, old, new)
        paths = list(dict.fromkeys([path, *others]))
        added: list[Diagnostic] = []
        removed: list[Diagnostic] = []
        sources: list[Source] = []
        remaining = 0
        async with AsyncExitStack() as stack:
            services = await self._started(stack, Meter(ctx), path, sources, alone=True)
            faults: list[kit.ToolError] = []
            for service in services:
                try:
                    was = await self._all(service, paths, sources)
                    with service.shown(path, after):
                        then = await self._all(service, paths, sources, {path: after})
                except kit.ToolError as met:
                    faults.append(met)
                    sources.append(_partial(service, str(met)))
                    continue
                finally:
                    service.restore(path)
                fresh, gone, same = compare(was, then)
                added, removed, remaining = added + fresh, removed + gone, remaining + same
            if faults and len(faults) == len(services):
                raise faults[0]
        diff = await asyncio.to_thread(edits.diff, [Change(path, before, after)])
        return Simulated(
            diff=edits.cut(diff, MAX_DIFF),
            diff_complete=len(diff) <= MAX_DIFF,
            added=sorted(added, key=_order),
            removed=sorted(removed, key=_order),
            remaining=remaining,
            **said(sources),
        )

    async def _to_ask(
        self, stack: AsyncExitStack, meter: Meter, path: str
    ) -> tuple[dict[str, list[Service]], list[Source]]:
        """The files that are meant, with their servers, which run until the stack ends."""
        sources: list[Source] = []
        if path and not self._disk.is_directory(path):
            one = self._disk.relative(path)
            return {one: await self._started(stack, meter, one, sources)}, sources
        by_path: dict[str, list[Service]] = {}
        for service in self._space.services:
            paths, whole = await self._space.files(service, path)
            if not paths:
                continue
            try:
                await stack.enter_async_context(service.asking(meter))
            except kit.ToolError as fault:
                sources.append(_partial(service, str(fault)))
                for each in paths:
                    by_path.setdefault(each, [])
                continue
            if not whole:
                sources.append(_partial(service, "there are more files than are looked at"))
            for each in paths:
                by_path.setdefault(each, []).append(service)
        return by_path, sources

    async def _started(
        self, stack: AsyncExitStack, meter: Meter, path: str, sources: list[Source], *, alone: bool = False
    ) -> list[Service]:
        """The servers of a file that could be started. Raises `kit.ToolError` where none could."""
        fault: kit.ToolError | None = None
        started: list[Service] = []
        for service in self._space.for_file(path):
            try:
                await stack.enter_async_context(service.asking(meter, alone=alone))
            except kit.ToolError as met:
                fault = fault or met
                sources.append(_partial(service, str(met)))
                continue
            started.append(service)
        if fault is not None and not started:
            raise fault
        return started

    async def _all(
        self, service: Service, paths: list[str], sources: list[Source], given: dict[str, str] | None = None
    ) -> list[Diagnostic]:
        found: list[Diagnostic] = []
        for path in paths:
            if service.server.handles(path):
                mine, who, _ = await self._diagnose(service, path, given)
                found += mine
                sources.append(who)
                if given and path not in given and service.server.unsaved:
                    sources.append(_partial(service, service.server.unsaved))
        return found

    async def _diagnose(
        self, service: Service, path: str, given: dict[str, str] | None = None
    ) -> tuple[list[Diagnostic], Source, bool]:
        """What one server finds in one file, who said so, and whether it said anything."""
        with service.shown(path, (given or {}).get(path)) as text:
            answer = await service.diagnose(path)
            texts, uri, encoding = (
                Texts(self._disk, {path: text}),
                self._disk.uri(path),
                service.client.encoding,
            )
            items = [wire.read(raw, wire.Diagnostic) for raw in answer.value]
            found = [texts.diagnostic(uri, each, encoding, service.name) for each in items]
            return found, source(service, answer), not answer.silent


def compare(
    before: list[Diagnostic], after: list[Diagnostic]
) -> tuple[list[Diagnostic], list[Diagnostic], int]:
    """What came, what went and how many stayed. Where a diagnostic stands does not count: lines move."""
    was, now = Counter(map(_what, before)), Counter(map(_what, after))
    return _only(after, was), _only(before, now), (was & now).total()


def _only(found: list[Diagnostic], others: Counter[tuple[str, ...]]) -> list[Diagnostic]:
    left = others.copy()
    kept: list[Diagnostic] = []
    for each in found:
        key = _what(each)
        if left[key]:
            left[key] -= 1
        else:
            kept.append(each)
    return kept


def _what(each: Diagnostic) -> tuple[str, ...]:
    return each.path, each.severity, each.code, each.message, each.server


def _order(each: Diagnostic) -> tuple[str, int, int, str]:
    return each.path, each.line, each.column, each.message


def _replaced(path: str, text: str, old: str, new: str) -> str:
    """Raises `kit.ToolError` (`invalid_request`) unless `old` is there once."""
    count = text.count(old) if old else 0
    if count != 1:
        told = (
            f"{path} holds `old` {count} times; it has to be there once"
            if old
            else "say `old`, or the whole `text`"
        )
        raise kit.ToolError("invalid_request", told)
    return text.replace(old, new)


def _partial(service: Service, why: str) -> Source:
    """A server that did not say all, or nothing."""
    return Source(
        name=service.name,
        version=service.version,
        readiness=service.readiness,
        complete=False,
        note=why,
    )
