"""What an app offers, in MCP: its greeting, its lists, and the work behind each method that calls a function.

Owns the shapes of params and results. Keeps no state of a connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from adapters.kit.commands import MOST_COMPLETIONS, complete, messages_of
from adapters.kit.errors import InputRequired, Json, Refused, ToolError
from adapters.kit.functions import own_fault
from adapters.kit.mcp_news import Filter
from adapters.kit.results import failure_of, result_of
from gateway.protocol import errors, mcp

if TYPE_CHECKING:
    from adapters.kit.app import App, Tool
    from adapters.kit.context import Context

LONG_MS: Final = 300_000
"""How long a caller may keep what seldom changes in the life of the process."""
SUPPORTED: Final = (*mcp.MODERN_VERSIONS, *reversed(mcp.LEGACY_VERSIONS))
INVALID_PARAMS: Final = errors.JSONRPC["invalid_request"]


class _Reference(msgspec.Struct):
    name: str = ""
    uri: str = ""


class _Argument(msgspec.Struct):
    name: str = ""
    value: str = ""


class _Given(msgspec.Struct):
    arguments: dict[str, str] = msgspec.field(default_factory=dict[str, str])


class Params(msgspec.Struct, rename="camel"):
    """Every parameter of every method that the kit reads."""

    meta: mcp.MetaView = msgspec.field(default_factory=mcp.MetaView, name="_meta")
    name: str = ""
    uri: str = ""
    level: str = ""
    cursor: str | None = None
    protocol_version: str = ""
    capabilities: Json = {}
    arguments: Json = {}
    notifications: Filter = msgspec.field(default_factory=Filter)
    ref: _Reference = msgspec.field(default_factory=_Reference)
    argument: _Argument = msgspec.field(default_factory=_Argument)
    context: _Given = msgspec.field(default_factory=_Given)
    input_responses: Json | None = None
    request_state: str = ""
    request_id: int | str | None = None

    @property
    def modern(self) -> bool:
        """Whether the request is of the stateless era."""
        return bool(self.meta.version)

    @property
    def sealed(self) -> list[Any]:
        """What a `requestState` is bound to."""
        return [self.name or self.uri, self.arguments]


read_params: Final = msgspec.json.Decoder(Params).decode


class Offer:
    """An app as an MCP server."""

    def __init__(self, app: App) -> None:
        self._app = app

    def identity(self) -> Json:
        """Who it is."""
        return {"name": self._app.name, "version": self._app.version}

    def facts(self) -> Json:
        """What it can do."""
        app = self._app
        can: Json = {"tools": {"listChanged": True}, "logging": {}}
        if app.resources:
            can["resources"] = {"listChanged": True, "subscribe": True}
        if app.commands:
            can["prompts"] = {"listChanged": True}
        if app.commands or app.resources.templates:
            can["completions"] = {}
        said = {"instructions": app.instructions} if app.instructions else {}
        return {"capabilities": can, **said}

    def greeting(self, wanted: str) -> Json:
        """The answer to `initialize`."""
        version = mcp.version_of_legacy(wanted)
        return {"protocolVersion": version, "serverInfo": self.identity(), **self.facts()}

    def listed(self, method: str) -> Json | None:
        """The answer to a method that needs no function called; None for all others."""
        app = self._app
        if method == "tools/list":
            return {"tools": [tool.describe for tool in app.tools.values()], "ttlMs": LONG_MS}
        if method == "prompts/list" and app.commands:
            return {"prompts": [each.as_prompt for each in app.commands.values()], "ttlMs": LONG_MS}
        if method == "resources/templates/list" and app.resources:
            return {"resourceTemplates": app.resources.listed(), "ttlMs": LONG_MS}
        return None

    def call_of(self, params: Params) -> Callable[[Context], Awaitable[Json]]:
        """The work behind `tools/call`. Raises `Refused` for a tool that there is not."""
        if (tool := self._app.tools.get(params.name)) is None:
            raise Refused(INVALID_PARAMS, f"unknown tool: {params.name!r}")
        return partial(self._call, tool, params)

    def work_of(self, method: str, params: Params) -> Callable[[Context], Awaitable[Json]] | None:
        """The work behind a method; None where there is none. Raises `Refused` for a name that there is not."""
        app = self._app
        if method == "resources/list" and app.resources:
            return partial(self._page, params)
        if method == "resources/read" and app.resources:
            return partial(self._read, params)
        if method == "prompts/get" and app.commands:
            if params.name not in app.commands:
                raise Refused(INVALID_PARAMS, f"unknown prompt: {params.name!r}")
            return partial(self._prompt, params)
        if method == "completion/complete" and (app.commands or app.resources.templates):
            return partial(self._complete, params)
        return None

    async def _call(self, tool: Tool, params: Params, context: Context) -> Json:
        try:
            return result_of(await tool.signature.call(params.arguments, context))
        except msgspec.ValidationError as fault:
            failed = ToolError("invalid_request", f"{params.name}: {fault}")
        except ToolError as fault:
            failed = fault
        except InputRequired:
            raise
        except Exception as fault:  # noqa: BLE001 - a fault of one call must not end the others
            failed = own_fault(fault, params.name)
        return failure_of(failed) | {"isError": True}

    async def _prompt(self, params: Params, context: Context) -> Json:
        command = self._app.commands[params.name]
        try:
            returned = await command.run([], params.arguments, context)
        except ToolError as fault:
            raise _refused(fault) from None
        except InputRequired:
            raise
        except Exception as fault:  # noqa: BLE001 - as in a tool
            raise _refused(own_fault(fault, params.name)) from None
        about = {"description": command.signature.about} if command.signature.about else {}
        return {**about, "messages": messages_of(returned)}

    async def _page(self, params: Params, context: Context) -> Json:
        del context
        try:
            page, following = await self._app.resources.page(params.cursor)
        except ToolError as fault:
            raise Refused(INVALID_PARAMS, str(fault), {"code": fault.code, "uri": ""}) from None
        return {"resources": page, "ttlMs": 0} | ({"nextCursor": following} if following else {})

    async def _read(self, params: Params, context: Context) -> Json:
        try:
            return {"contents": [await self._app.resources.read(params.uri, context)], "ttlMs": 0}
        except ToolError as fault:
            number = errors.RESOURCE_NOT_FOUND if fault.code == "io" and not params.modern else INVALID_PARAMS
            raise Refused(number, str(fault), {"code": fault.code, "uri": params.uri}) from None
        except InputRequired:
            raise
        except Exception as fault:  # noqa: BLE001 - as in a tool
            raise _refused(own_fault(fault, params.uri)) from None

    async def _complete(self, params: Params, context: Context) -> Json:
        del context
        app, of = self._app, params.ref.name or params.ref.uri
        signature = None
        if of in app.commands:
            signature = app.commands[of].signature
        elif of in app.resources.templates:
            signature = app.resources.templates[of].signature
        typed = params.argument
        try:
            found = await complete(
                app.completions, of, signature, typed.name, typed.value, params.context.arguments
            )
        except Exception as fault:  # noqa: BLE001 - as in a tool
            raise _refused(own_fault(fault, f"the completion of {of}")) from None
        told = found[:MOST_COMPLETIONS]
        return {
            "completion": {"values": told, "total": len(found), "hasMore": len(found) > len(told)},
        }


def _refused(fault: ToolError) -> Refused:
    return Refused(errors.JSONRPC[fault.code], str(fault), {"code": fault.code, **fault.details})
