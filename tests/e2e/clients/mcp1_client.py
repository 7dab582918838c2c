"""The client of `mcp` 1.x, doing what `test_real_clients` expects of each client.

Runs in an environment of its own (`tooling.old_python`), since one environment holds one major version.
"""

# pyright: basic, reportAttributeAccessIssue=false, reportMissingImports=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportGeneralTypeIssues=false

import asyncio
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))

from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from tests.e2e.clients.report import NAME, PROMPT, ROOT, SAMPLED, STEPS, target, tell


async def _sample(context: Any, params: Any) -> Any:
    text = types.TextContent(type="text", text=SAMPLED)
    return types.CreateMessageResult(role="assistant", content=text, model="none")


async def _elicit(context: Any, params: Any) -> Any:
    return types.ElicitResult(action="accept", content={"name": NAME})


async def _roots(context: Any) -> Any:
    return types.ListRootsResult(roots=[types.Root.model_validate({"uri": ROOT})])


async def play(to: dict[str, Any]) -> None:
    async with AsyncExitStack() as stack:
        if "command" in to:
            program, *arguments = to["command"]
            server = StdioServerParameters(command=program, args=arguments, env=to["env"])
            read, write = await stack.enter_async_context(stdio_client(server))
        else:
            headers = {"Authorization": f"Bearer {to['token']}"}
            http = await stack.enter_async_context(create_mcp_http_client(headers=headers))
            streams = await stack.enter_async_context(streamable_http_client(to["url"], http_client=http))
            read, write = streams[0], streams[1]
        session = await stack.enter_async_context(
            ClientSession(
                read,
                write,
                sampling_callback=_sample,
                elicitation_callback=_elicit,
                list_roots_callback=_roots,
            )
        )
        tell(await _report(session))


async def _report(session: Any) -> dict[str, Any]:
    steps: list[float] = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        steps.append(progress)

    async def call(tool: str, progress: Any = None, **given: Any) -> Any:
        return await session.call_tool(tool, given, progress_callback=progress)

    hello = await session.initialize()
    tools = await session.list_tools()
    resource = (await session.list_resources()).resources[0]
    content = (await session.read_resource(resource.uri)).contents[0]
    prompt = (await session.get_prompt("args-prompt", {"city": "Bern"})).messages[0].content
    weather = await call("get-structured-content", location="Chicago")
    await call("trigger-long-running-operation", progressed, duration=0.02 * STEPS, steps=STEPS)
    return {
        "protocol": hello.protocolVersion,
        "tools": sorted(tool.name for tool in tools.tools),
        "echo": (await call("echo", message="hällo")).content[0].text,
        "failed": (await call("get-structured-content", location="Atlantis")).isError,
        "structured": weather.structuredContent,
        "progress": steps,
        "sampled": SAMPLED in (await call("trigger-sampling-request", prompt=PROMPT)).content[0].text,
        "elicited": f"Name: {NAME}" in (await call("trigger-elicitation-request")).content[1].text,
        "roots": ROOT in (await call("get-roots-list")).content[0].text,
        "resource": bool(content.text),
        "prompt": prompt.text,
    }


if __name__ == "__main__":
    asyncio.run(play(target()))
