"""What an adapter is written with: typed functions become the tools of an MCP server, one line starts it.

Owns the public names of the kit. `app` says what an adapter offers, `session` speaks the protocol,
`serving` waits.

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

    kit.run(app)
"""

from adapters.kit.app import App, Blob, Declined, Resource, Resources, ToolError
from adapters.kit.context import Context
from adapters.kit.serving import run

__all__ = ["App", "Blob", "Context", "Declined", "Resource", "Resources", "ToolError", "run"]
