"""The peer of the matrix: the everything server with what the conformance suite has no tool for, on all carriers.

`python -m tests.e2e.matrix_server FOLDER` forks one server for each carrier and era that can be, and serves
launchers of stdio servers at `FOLDER/prefork.sock` itself; prints one line of JSON, `carrier/era` to address.
Forks, since importing the protocol library takes a second and more. Owns the extra tools and no carrier.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from itertools import product
from pathlib import Path
from typing import Any, Final, NoReturn, get_args

import anyio
import mcp_types as types
from pydantic import ConfigDict

from tests.conformance import carriers, everything_content, prefork
from tests.conformance.everything_server import EverythingServer
from tests.conformance.everything_tools import TOOLS, Entry, Hub, arguments, text, tool
from tests.conformance.questions import Context, Talk

CARRIERS: Final[tuple[carriers.Transport, ...]] = get_args(carriers.Transport)
ERAS: Final[tuple[carriers.Era, ...]] = ("legacy", "modern")
CURSOR: Final = "page 2 / \u00e4 ?&="
"""A cursor is opaque: whoever forwards one must not look."""
ANSWER_META: Final = {
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01",
    "example.com/served-by": {"rack": 7},
}
RESULT_OF_THE_FUTURE: Final = {"not": ["known", "yet"]}

_cancelled: set[str] = set()


class _AnyParams(types.RequestParams):
    model_config = ConfigDict(extra="allow")


async def _structured(hub: Hub, talk: Talk) -> types.CallToolResult:
    found: dict[str, Any] = {"city": talk.arguments["city"], "celsius": 21.5, "hours": [1, 2]}
    return types.CallToolResult(content=[text(json.dumps(found))], structured_content=found)


TOOLS["matrix_structured"] = Entry(
    types.Tool(
        name="matrix_structured",
        description="Answers with structured content.",
        input_schema=arguments(city="Any name"),
        output_schema={
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "celsius": {"type": "number"},
                "hours": {"type": "array"},
            },
            "required": ["city", "celsius"],
        },
    ),
    _structured,
)


@tool("Reports that it has begun, then waits until it is cancelled.", arguments(key="Under which to tell"))
async def matrix_wait(hub: Hub, talk: Talk) -> str:
    try:
        await talk.ctx.session.report_progress(0, 1, "waiting")
        await anyio.sleep_forever()
    finally:
        _cancelled.add(talk.arguments["key"])
    raise AssertionError("forever has ended")


@tool("Says whether a waiting call has been cancelled.", arguments(key="As it was given to it"))
async def matrix_was_cancelled(hub: Hub, talk: Talk) -> str:
    return "yes" if talk.arguments["key"] in _cancelled else "no"


@tool("Says what came in `_meta`, and sends some back: with progress, if it is wanted, and with the result.")
async def matrix_meta(hub: Hub, talk: Talk) -> types.CallToolResult:
    given: dict[str, Any] = dict((talk.ctx.params or {}).get("_meta") or {})
    if "progressToken" in given:
        note = types.ProgressNotificationParams.model_validate(
            {"progressToken": given["progressToken"], "progress": 1, "_meta": ANSWER_META}
        )
        await talk.ctx.session.send_notification(
            types.ProgressNotification(params=note), related_request_id=talk.ctx.request_id
        )
    given.pop("progressToken", None)
    return types.CallToolResult.model_validate(
        {"content": [{"type": "text", "text": json.dumps(given)}], "_meta": ANSWER_META}
    )


class MatrixServer(EverythingServer):
    """The everything server with two pages of resources and a method that no revision has."""

    def __init__(self) -> None:
        super().__init__()
        self.add_request_handler("example/future", _AnyParams, self._future)

    async def _list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        first, rest = everything_content.RESOURCES[:2], everything_content.RESOURCES[2:]
        cursor = params.cursor if params is not None else None
        if cursor is None:
            return types.ListResourcesResult(resources=first, next_cursor=CURSOR)
        return types.ListResourcesResult(resources=rest if cursor == CURSOR else [])

    async def _future(self, ctx: Context, params: _AnyParams) -> dict[str, Any]:
        given = {key: value for key, value in (ctx.params or {}).items() if key != "_meta"}
        return {"given": given, "more": RESULT_OF_THE_FUTURE}


def can_be(carrier: carriers.Transport, era: carriers.Era) -> bool:
    """Whether such a server listens: stdio servers are launched, and HTTP+SSE is older than the stateless era."""
    return carrier != "stdio" and not (carrier == "sse" and era == "modern")


def _child(carrier: carriers.Transport, era: carriers.Era, path: Path, stdout: int) -> NoReturn:
    os.dup2(stdout, 1)
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - ours for life
    try:
        asyncio.run(carriers.serve(MatrixServer(), carrier, era, path=str(path), until_eof=True))
    finally:
        os._exit(1)


def main() -> None:
    """Fork the listening servers, tell where they are, serve launchers until killed."""
    folder = Path(sys.argv[1])
    addresses: dict[str, str] = {}
    for carrier, era in product(CARRIERS, ERAS):
        if not can_be(carrier, era):
            continue
        mine, theirs = os.pipe()
        if os.fork() == 0:
            _child(carrier, era, folder / f"{era}.sock", theirs)
        os.close(theirs)
        with open(mine) as said:
            addresses[f"{carrier}/{era}"] = json.loads(said.readline())["address"]
    prefork.listen(
        folder / "prefork.sock", MatrixServer, announce=lambda: print(json.dumps(addresses), flush=True)
    )


if __name__ == "__main__":
    main()
