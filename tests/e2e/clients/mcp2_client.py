"""The client of `mcp` 2.x, doing what `test_real_clients` expects of each client."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import mcp_types as types
from mcp.client.client import Client
from mcp.client.context import ClientRequestContext
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from tests.e2e.clients.report import NAME, PROMPT, ROOT, SAMPLED, STEPS, target, tell


async def _sample(
    context: ClientRequestContext, params: types.CreateMessageRequestParams
) -> types.CreateMessageResult:
    text = types.TextContent(type="text", text=SAMPLED)
    return types.CreateMessageResult(role="assistant", content=text, model="none")


async def _elicit(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"name": NAME})


async def _roots(context: ClientRequestContext) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root.model_validate({"uri": ROOT})])


async def play(to: dict[str, Any]) -> None:
    async with AsyncExitStack() as stack:
        if "command" in to:
            program, *arguments = to["command"]
            reached: Any = StdioServerParameters(command=program, args=arguments, env=to["env"])
        else:
            headers = {"Authorization": f"Bearer {to['token']}"}
            http = await stack.enter_async_context(create_mcp_http_client(headers=headers))
            reached = streamable_http_client(to["url"], http_client=http)
        client = await stack.enter_async_context(
            Client(
                reached,
                mode=to.get("mode", "auto"),
                sampling_callback=_sample,
                elicitation_callback=_elicit,
                list_roots_callback=_roots,
                read_timeout_seconds=30,
            )
        )
        tell(await _report(client))


async def _report(client: Client) -> dict[str, Any]:
    steps: list[float] = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        steps.append(progress)

    async def call(tool: str, progress: Any = None, **given: Any) -> types.CallToolResult:
        return await client.call_tool(tool, given, progress_callback=progress)

    def text(result: types.CallToolResult, which: int = 0) -> str:
        block = result.content[which]
        assert isinstance(block, types.TextContent)
        return block.text

    tools = await client.list_tools()
    resource = (await client.list_resources()).resources[0]
    content = (await client.read_resource(resource.uri)).contents[0]
    assert isinstance(content, types.TextResourceContents)
    prompt = (await client.get_prompt("args-prompt", {"city": "Bern"})).messages[0].content
    assert isinstance(prompt, types.TextContent)
    weather = await call("get-structured-content", location="Chicago")
    await call("trigger-long-running-operation", progressed, duration=0.02 * STEPS, steps=STEPS)
    return {
        "protocol": client.protocol_version,
        "tools": sorted(tool.name for tool in tools.tools),
        "echo": text(await call("echo", message="hällo")),
        "failed": (await call("get-structured-content", location="Atlantis")).is_error,
        "structured": weather.structured_content,
        "progress": steps,
        "sampled": SAMPLED in text(await call("trigger-sampling-request", prompt=PROMPT)),
        "elicited": f"Name: {NAME}" in text(await call("trigger-elicitation-request"), 1),
        "roots": ROOT in text(await call("get-roots-list")),
        "resource": bool(content.text),
        "prompt": prompt.text,
    }


if __name__ == "__main__":
    asyncio.run(play(target()))
