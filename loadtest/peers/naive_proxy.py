"""A proxy as one writes it with the `mcp` SDK: a server session whose handlers ask a client session.

Runs in an environment that has the SDK alone: `naive_proxy.py COMMAND [ARGUMENT ...]`, stdio to stdio.
"""

import asyncio
import sys
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server


async def main() -> None:
    """Connect to the server behind, then serve."""
    command, *arguments = sys.argv[1:]
    behind = StdioServerParameters(command=command, args=arguments)
    async with stdio_client(behind) as streams, ClientSession(*streams) as session:
        await session.initialize()

        async def list_tools(_: Any, __: Any) -> Any:
            return await session.list_tools()

        async def call_tool(_: Any, params: Any) -> Any:
            return await session.call_tool(params.name, params.arguments)

        server: Server[Any] = Server("naive", on_list_tools=list_tools, on_call_tool=call_tool)
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
