"""FastMCP's client, doing what `test_real_clients` expects of each client."""

import asyncio
from typing import Any

import mcp_types as types
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport

from tests.e2e.clients.report import NAME, PROMPT, ROOT, SAMPLED, STEPS, target, tell


async def _sample(messages: Any, params: Any, context: Any) -> str:
    return SAMPLED


async def _elicit(message: str, response_type: Any, params: Any, context: Any) -> ElicitResult[Any]:
    return ElicitResult(action="accept", content={"name": NAME})


async def play(to: dict[str, Any]) -> None:
    if "command" in to:
        program, *arguments = to["command"]
        transport: Any = StdioTransport(program, arguments, env=to["env"], keep_alive=False)
    else:
        transport = StreamableHttpTransport(to["url"], auth=to["token"])
    steps: list[float] = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        steps.append(progress)

    client: Client[Any] = Client(
        transport,
        mode=to.get("mode", "auto"),
        roots=[ROOT],
        sampling_handler=_sample,
        elicitation_handler=_elicit,
        progress_handler=progressed,
        timeout=30,
    )
    async with client:
        report = await _report(client)
    tell({**report, "progress": steps})


async def _report(client: Client[Any]) -> dict[str, Any]:
    async def call(tool: str, **given: Any) -> Any:
        return await client.call_tool(tool, given, raise_on_error=False)

    tools = await client.list_tools()
    resource = (await client.list_resources())[0]
    content = (await client.read_resource(str(resource.uri)))[0]
    assert isinstance(content, types.TextResourceContents)
    prompt = (await client.get_prompt("args-prompt", {"city": "Bern"})).messages[0].content
    assert isinstance(prompt, types.TextContent)
    weather = await call("get-structured-content", location="Chicago")
    await call("trigger-long-running-operation", duration=0.02 * STEPS, steps=STEPS)
    return {
        "protocol": None,
        "tools": sorted(tool.name for tool in tools),
        "echo": (await call("echo", message="hällo")).content[0].text,
        "failed": (await call("get-structured-content", location="Atlantis")).is_error,
        "structured": weather.structured_content,
        "sampled": SAMPLED in (await call("trigger-sampling-request", prompt=PROMPT)).content[0].text,
        "elicited": f"Name: {NAME}" in (await call("trigger-elicitation-request")).content[1].text,
        "roots": ROOT in (await call("get-roots-list")).content[0].text,
        "resource": bool(content.text),
        "prompt": prompt.text,
    }


if __name__ == "__main__":
    asyncio.run(play(target()))
