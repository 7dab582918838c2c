"""A small server on `mcp` 1.x, on stdio. Runs in an environment of its own (`tooling.old_python`)."""

# pyright: basic, reportAttributeAccessIssue=false, reportMissingImports=false

from mcp.server.fastmcp import Context, FastMCP
from pydantic import BaseModel

server = FastMCP("mcp1-server")


class Sum(BaseModel):
    """What `add` answers."""

    sum: float


class Person(BaseModel):
    """Who was asked for."""

    name: str


@server.tool()
def add(a: float, b: float) -> Sum:
    """Adds."""
    return Sum(sum=a + b)


@server.tool()
async def ask(ctx: Context) -> str:
    """Asks the user."""
    answer = await ctx.elicit("Who are you?", Person)
    return f"Hello, {answer.data.name}!" if answer.action == "accept" else "Nobody."


@server.resource("note://one")
def note() -> str:
    """A note."""
    return "A note"


@server.prompt()
def greet(name: str) -> str:
    """A greeting."""
    return f"Greet {name}"


if __name__ == "__main__":
    server.run("stdio")
