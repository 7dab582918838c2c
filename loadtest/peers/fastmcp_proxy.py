"""FastMCP's proxy, made from a configuration as its documentation does: `fastmcp_proxy.py PORT COMMAND [ARGUMENT ...]`.

Runs in an environment that has FastMCP alone. Port 0 serves on stdio.
"""

import sys

from fastmcp.server import create_proxy

port, command, *arguments = sys.argv[1:]
proxy = create_proxy({"mcpServers": {"default": {"command": command, "args": arguments}}})
if port == "0":
    proxy.run(transport="stdio", show_banner=False)
else:
    proxy.run(transport="http", host="127.0.0.1", port=int(port), show_banner=False)
