"""A server that can do all that the conformance suite asks for, in one era or both, on any transport.

`python -m tests.conformance.everything_server --transport stdio --era legacy` is what the gateway is
measured in front of. Owns the wiring and the command line; tools, content and carriers are next door.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
from typing import Any, cast, get_args

import mcp_types as types
from mcp.server.caching import CACHEABLE_METHODS, CacheableMethod, CacheHint
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPError

from tests.conformance import carriers, everything_content
from tests.conformance.everything_tools import TOOLS, Hub, text
from tests.conformance.questions import Context, InputRequiredError, Talk, connection_of, is_modern

STATE_KEY = "everything server, any instance, opens this"
"""Seals the request state. Fixed, so that a call may come back to another instance."""

EXTRA_TOOL = types.Tool(name="test_extra_tool", description="Comes and goes", input_schema={"type": "object"})


class EverythingServer(Server[dict[str, Any]]):
    """The low-level server with every handler that either era knows."""

    def __init__(self) -> None:
        self.hub = Hub()
        hints: dict[CacheableMethod, CacheHint] = {
            cast("CacheableMethod", method): CacheHint(0, "private") for method in CACHEABLE_METHODS
        }
        super().__init__(
            "everything",
            version="1.0.0",
            instructions="Every feature of the protocol, for tests.",
            cache_hints=hints,
            get_tool_input_schema=lambda name: TOOLS[name].tool.input_schema if name in TOOLS else None,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe,
            on_subscriptions_listen=ListenHandler(self.hub.bus),
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            on_completion=self._complete,
        )
        self.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self._set_level)
        self.add_notification_handler(
            "notifications/initialized", types.NotificationParams, self._initialized
        )
        security = RequestStateSecurity(keys=[STATE_KEY])
        self.middleware.append(RequestStateBoundary(security, default_audience="everything"))

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """As the base class, but says that every list may change."""
        changes = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
        return super().create_initialization_options(
            notification_options or changes, experimental_capabilities, extensions
        )

    async def _list_tools(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        extra = [EXTRA_TOOL] if self.hub.extra_tool else []
        return types.ListToolsResult(tools=[entry.tool for entry in TOOLS.values()] + extra)

    async def _call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        if params.name == EXTRA_TOOL.name and self.hub.extra_tool:
            return types.CallToolResult(content=[text("Still here.")])
        if params.name not in TOOLS:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
        try:
            result = await TOOLS[params.name].body(self.hub, Talk(ctx, params.arguments or {}))
        except InputRequiredError as question:
            return question.result
        return types.CallToolResult(content=[text(result)]) if isinstance(result, str) else result

    async def _list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=everything_content.RESOURCES)

    async def _list_templates(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=everything_content.TEMPLATES)

    async def _read_resource(
        self, ctx: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        return everything_content.read(params.uri, modern=is_modern(ctx))

    async def _subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        connection_of(ctx).state.setdefault("uris", set()).add(params.uri)
        return types.EmptyResult()

    async def _unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        connection_of(ctx).state.setdefault("uris", set()).discard(params.uri)
        return types.EmptyResult()

    async def _list_prompts(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=everything_content.prompts(self.hub))

    async def _get_prompt(
        self, ctx: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        try:
            return await everything_content.get_prompt(params.name, Talk(ctx, params.arguments or {}))
        except InputRequiredError as question:
            return question.result

    async def _complete(self, ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        values = [word for word in ("paris", "park", "party") if word.startswith(params.argument.value)]
        return types.CompleteResult(
            completion=types.Completion(values=values, total=len(values), has_more=False)
        )

    async def _set_level(self, ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        connection_of(ctx).state["log level"] = params.level
        return types.EmptyResult()

    async def _initialized(self, ctx: Context, params: types.NotificationParams) -> None:
        self.hub.sessions.add(connection_of(ctx))


def main() -> None:
    """Serve until the client leaves (stdio), the standard input ends (`--until-eof`), or a signal comes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transport", choices=get_args(carriers.Transport), default="stdio")
    parser.add_argument("--era", choices=get_args(carriers.Era), default="both")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one and prints it")
    parser.add_argument("--path", help="of the unix socket")
    parser.add_argument("--until-eof", action="store_true", help="end when the standard input ends")
    options = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    asyncio.run(
        carriers.serve(
            EverythingServer(),
            options.transport,
            options.era,
            port=options.port,
            path=options.path,
            until_eof=options.until_eof,
        )
    )


if __name__ == "__main__":
    main()
