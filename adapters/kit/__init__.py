"""What an extension is written with: typed functions become tools, commands, resources and hooks; one line starts it.

Owns the public names of the kit. `app` says what an extension offers, the sessions speak MCP or Pi, `serving`
waits, `testing` drives an extension without any process.

    from adapters import kit

    app = kit.App("greeter", "1.0.0")

    @app.tool(read_only=True)
    async def greet(name: str, times: int = 1) -> str:
        \"\"\"Greet somebody.

        Args:
            name: Whom to greet.
            times: How often.
        \"\"\"
        return f"Hello {name}! " * times

    if __name__ == "__main__":
        app.run()
"""

from adapters.kit.app import App
from adapters.kit.commands import Message
from adapters.kit.context import Context
from adapters.kit.errors import Cancelled, Declined, ToolError
from adapters.kit.hops import Hops
from adapters.kit.host import Host
from adapters.kit.resources import Resource, Resources
from adapters.kit.results import Blob
from adapters.kit.serving import add_options, run
from gateway.protocol.pi_messages import Requirement, Scope

__all__ = [
    "App",
    "Blob",
    "Cancelled",
    "Context",
    "Declined",
    "Hops",
    "Host",
    "Message",
    "Requirement",
    "Resource",
    "Resources",
    "Scope",
    "ToolError",
    "add_options",
    "run",
]
