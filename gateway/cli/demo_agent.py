"""The agent of the demo: a fixed list of calls through the MCP SDK's client, and what each must come to.

Owns the script and the telling of what happens, one line an event. Knows nothing of how its calls are carried:
it is handed a connected client. A step that comes to something else is told and counted, not passed over.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio
import jsonschema
import mcp_types as types
from mcp import Client
from mcp.shared.dispatcher import ProgressFnT

_ = jsonschema
"""The SDK's client imports it inside of its first call; imported here it costs no call anything."""

Check: TypeAlias = Callable[[types.CallToolResult], bool]
Tell: TypeAlias = Callable[["Event"], None]

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
BESTSELLERS = "SELECT product, cents FROM revenue ORDER BY cents DESC"
CANCELLED = "DELETE FROM order_lines WHERE order_id IN (SELECT id FROM orders WHERE state = 'cancelled')"
OUTSIDE = "../../../etc/passwd"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened. `took_s` is the time from a call to its answer."""

    at_s: float
    peer: str
    what: str
    outcome: str
    note: str = ""
    took_s: float | None = None


@dataclass(slots=True)
class Agent:
    """Makes the calls and tells what happens."""

    tell: Tell
    calls: int = 0
    seen: set[str] = field(default_factory=set[str])
    """What has happened at least once: `progress`, `asked`, `cancelled`, `error`."""
    wrong: list[str] = field(default_factory=list[str])
    """What did not come out as scripted."""
    _client: Client = field(init=False)
    _began: float = field(default_factory=time.monotonic)
    _answers: list[bool] = field(default_factory=list[bool])

    async def play(self, client: Client) -> None:
        """Make all calls."""
        self._client = client
        self._began = time.monotonic()
        await self._list()
        await self._all_at_once()
        await self._read_code()
        await self._page()
        await self._stream()
        await self._cancel()
        await self._fail()
        await self._change()
        await self._resource()

    def asked(self, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Answer a question of a peer as the script says."""
        yes = self._answers.pop(0) if self._answers else False
        first = params.message.partition("\n")[0]
        self._event("", "elicitation", "accept" if yes else "decline", first)
        self.seen.add("asked")
        return (
            types.ElicitResult(action="accept", content={"confirm": True})
            if yes
            else types.ElicitResult(action="decline")
        )

    async def _list(self) -> None:
        began = time.monotonic()
        found = await self._client.list_tools()
        self.calls += 1
        names = [tool.name for tool in found.tools]
        self._event("", "tools/list", "ok", f"{len(names)} tools: {', '.join(names)}", began)
        self._expect(
            "query" in names and "read_file" in names and "hover" in names, "tools of all three peers"
        )

    async def _all_at_once(self) -> None:
        """Calls to all peers at the same time: the quick ones do not wait for the server that still loads."""
        async with anyio.create_task_group() as group:
            for peer, name, arguments in (
                ("lsp", "definition", {"symbol": "Money"}),
                ("database", "list_databases", {}),
                ("database", "schema", {}),
                ("database", "query", {"sql": "SELECT state, count(*) FROM orders GROUP BY state"}),
                ("files", "list_directory", {"path": "shop"}),
                ("files", "read_file", {"path": "README.md"}),
                ("files", "search_files", {"pattern": "Basket", "glob": "*.py"}),
            ):
                group.start_soon(self._call, peer, name, arguments)

    async def _read_code(self) -> None:
        await self._call(
            "lsp", "hover", {"path": "shop/basket.py", "symbol": "Basket.total"}, _holds("Money")
        )
        await self._call("lsp", "references", {"symbol": "Money.plus"}, _holds("shop/till.py"))
        await self._call("lsp", "diagnostics", {"severity": "error"}, _holds("reportArgumentType"))
        await self._call("files", "read_file", {"path": "shop/till.py", "first_line": 20, "max_lines": 5})

    async def _page(self) -> None:
        first = await self._call("database", "query", {"sql": BESTSELLERS, "max_rows": 5}, _holds("more"))
        cursor = _field(first, "next") if first else ""
        more: dict[str, Any] = {"sql": BESTSELLERS, "max_rows": 5, "cursor": cursor}
        await self._call("database", "query", more, lambda result: _rows(result) == 3)

    async def _stream(self) -> None:
        arguments = {"sql": "SELECT * FROM order_lines", "file": "order_lines.csv"}
        before = self.calls
        heard = 0

        async def report(progress: float, total: float | None, message: str | None) -> None:
            nonlocal heard
            heard += 1
            self._event("database", "export", "progress", f"{progress:g} {message or ''}")

        await self._call("database", "export", arguments, progress=report)
        self._expect(heard >= 3 and self.calls == before + 1, "a stream of progress from one export")

    async def _cancel(self) -> None:
        """Cancel a statement that would never end, once it is known to run; the next one finds its way free."""
        began = time.monotonic()
        self.calls += 1
        with anyio.move_on_after(20) as scope:

            async def report(progress: float, total: float | None, message: str | None) -> None:
                self._event("database", "query", "progress", f"{progress:g} {message or ''}")
                self.seen.add("progress")
                scope.cancel()

            await self._client.call_tool("query", {"sql": ENDLESS}, progress_callback=report)
        took = time.monotonic() - began
        self._expect(scope.cancelled_caught and took < 20, "a cancelled statement")
        self._event("database", "query", "cancelled", "a statement without an end", began)
        self.seen.add("cancelled")
        await self._call("database", "query", {"sql": "SELECT count(*) FROM customers"}, _holds("200"))

    async def _fail(self) -> None:
        refused = ("not authorized", "no such table", "outside of the root")
        for (peer, name, arguments), words in zip(
            (
                ("database", "query", {"sql": "DELETE FROM orders"}),
                ("database", "query", {"sql": "SELECT * FROM nowhere"}),
                ("files", "read_file", {"path": OUTSIDE}),
            ),
            refused,
            strict=True,
        ):
            await self._call(peer, name, arguments, _holds(words), fails=True)

    async def _change(self) -> None:
        preview = {"sql": CANCELLED, "commit": False}
        await self._call("database", "execute", preview, lambda result: not _field(result, "committed"))
        self._answers = [False, True]
        await self._call("database", "execute", {"sql": CANCELLED}, _holds("not done"), fails=True)
        await self._call(
            "database", "execute", {"sql": CANCELLED}, lambda result: bool(_field(result, "committed"))
        )

    async def _resource(self) -> None:
        began = time.monotonic()
        found = await self._client.list_resources()
        self.calls += 1
        self._event("files", "resources/list", "ok", f"{len(found.resources)} resources", began)
        readme = next((each.uri for each in found.resources if each.name == "README.md"), None)
        self._expect(readme is not None, "a resource README.md")
        if readme is not None:
            began = time.monotonic()
            read = await self._client.read_resource(str(readme))
            self.calls += 1
            size = sum(
                len(part.text) for part in read.contents if isinstance(part, types.TextResourceContents)
            )
            self._event("files", "resources/read", "ok", f"{size} characters", began)
            self._expect(size > 0, "the text of README.md")

    async def _call(
        self,
        peer: str,
        name: str,
        arguments: dict[str, Any],
        check: Check | None = None,
        *,
        fails: bool = False,
        progress: ProgressFnT | None = None,
    ) -> types.CallToolResult | None:
        """Make one call and tell how it went. `check` is what its result must be like."""
        began = time.monotonic()
        self.calls += 1

        async def report(progress: float, total: float | None, message: str | None) -> None:
            # The database says the unit of what it counts, the others what they do.
            is_unit = peer == "database" and message
            self._event(
                peer, name, "progress", f"{progress:g} {message}" if is_unit else message or f"{progress:g}"
            )
            self.seen.add("progress")

        result = await self._client.call_tool(name, arguments, progress_callback=progress or report)
        text = _text(result)
        self._event(peer, name, "error" if result.is_error else "ok", _first(text), began)
        if result.is_error:
            self.seen.add("error")
        self._expect(
            bool(result.is_error) == fails, f"{name} to {'fail' if fails else 'work'}: {_first(text)}"
        )
        self._expect(check is None or check(result), f"another result of {name}: {_first(text)}")
        return None if result.is_error else result

    def _expect(self, holds: bool, what: str) -> None:
        if not holds:
            self.wrong.append(what)
            self._event("", "script", "wrong", f"expected {what}")

    def _event(self, peer: str, what: str, outcome: str, note: str = "", began: float | None = None) -> None:
        now = time.monotonic()
        took = now - began if began is not None else None
        self.tell(
            Event(at_s=now - self._began, peer=peer, what=what, outcome=outcome, note=note, took_s=took)
        )


def _holds(words: str) -> Check:
    return lambda result: words in _text(result)


def _rows(result: types.CallToolResult) -> int:
    return len(_field(result, "rows") or [])


def _field(result: types.CallToolResult, name: str) -> Any:
    found: Any = result.structured_content
    return found.get(name) if isinstance(found, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _text(result: types.CallToolResult) -> str:
    return "\n".join(part.text for part in result.content if isinstance(part, types.TextContent))


def _first(text: str) -> str:
    # The fence of a block of code says nothing to a reader of one line.
    lines = [line for line in text.strip().replace("\t", "  ").splitlines() if not line.startswith("```")]
    return f"{lines[0]} (+{len(lines) - 1} lines)" if len(lines) > 1 else "".join(lines)
