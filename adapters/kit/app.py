"""What an adapter offers: its name, its tools with their schemas, its resources.

Owns the turning of typed functions into tool descriptions and of arguments into calls. Knows no protocol
version, no request and no transport.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import typing
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Protocol, TypeAlias, TypeVar, cast

import msgspec

from gateway.protocol.errors import Code

Json: TypeAlias = dict[str, Any]
F = TypeVar("F", bound=Callable[..., Any])

_PARAMETER = re.compile(r"^\s+(\w+):\s+(.*)$")


class ToolError(Exception):
    """A call that failed in a way its caller should read: a result with `isError`, never a broken connection.

    `details` are structured facts without secrets; they travel in `_meta` under `tieline/error`.
    """

    def __init__(self, code: Code, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code: Code = code
        self.details: Json = details


class Declined(ToolError):  # noqa: N818 - an answer, not a failure
    """Somebody was asked and did not agree."""


class Resource(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """One entry of `resources/list`. `size` is in bytes."""

    uri: str
    name: str
    description: str = ""
    mime_type: str = ""
    size: int | None = None


class Blob(msgspec.Struct, kw_only=True):
    """The content of one resource: text, or bytes that are sent as base64."""

    data: str | bytes
    mime_type: str = ""


class Resources(Protocol):
    """What an adapter that has resources implements; called in a worker thread."""

    def page(self, cursor: str | None) -> tuple[list[Resource], str | None]:
        """One page and the cursor of the next one. Raises `ToolError` for a cursor it never gave."""
        ...

    def read(self, uri: str) -> Blob:
        """The content of one resource. Raises `ToolError`."""
        ...


class Tool(msgspec.Struct, frozen=True):
    """One tool: its description as `tools/list` gives it, and how it is called."""

    describe: Json
    function: Callable[..., Any]
    arguments: type[msgspec.Struct]
    context: str | None
    """The parameter that takes the `Context`, if the function asks for it."""

    async def call(self, arguments: Json, context: object) -> object:
        """Call the function: a coroutine on the loop, any other in a worker thread.

        Raises `msgspec.ValidationError` for arguments that do not fit, and whatever the function raises.
        """
        given = msgspec.structs.asdict(msgspec.convert(arguments, self.arguments))
        if self.context:
            given[self.context] = context
        if inspect.iscoroutinefunction(self.function):
            return await self.function(**given)
        return await asyncio.to_thread(self.function, **given)


class App:
    """An adapter: `App(name, version)`, then `@app.tool()` on every function that is to be a tool."""

    def __init__(
        self, name: str, version: str, *, instructions: str = "", resources: Resources | None = None
    ) -> None:
        self.name = name
        self.version = version
        self.instructions = instructions
        self.resources = resources
        self.tools: dict[str, Tool] = {}
        self.closers: list[Callable[[], Awaitable[None]]] = []

    def on_close(self, closer: Callable[[], Awaitable[None]]) -> None:
        """Have `closer` awaited before the process ends, however it is asked to."""
        self.closers.append(closer)

    def tool(
        self, *, read_only: bool = False, destructive: bool = False, title: str = ""
    ) -> Callable[[F], F]:
        """Offer a function as a tool under its own name.

        Its parameters must be annotated: they become the input schema, with the texts of the docstring's
        `Args:`, or of a `msgspec.Meta(description=...)` in the annotation. A parameter annotated `kit.Context`
        is given the context of the call. A returned `msgspec.Struct` becomes structured content with an output
        schema; its text is what its `text()` gives, or its JSON.
        """

        def register(function: F) -> F:
            tool = describe(function, read_only=read_only, destructive=destructive, title=title)
            self.tools[cast("str", tool.describe["name"])] = tool
            return function

        return register


def describe(function: Callable[..., Any], *, read_only: bool, destructive: bool, title: str) -> Tool:
    """Make a tool of a function. Raises `TypeError` for a parameter without annotation."""
    name = function.__name__
    hints = typing.get_type_hints(function, include_extras=True)
    summary, texts = _read_docstring(inspect.getdoc(function) or "")
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    context: str | None = None
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name not in hints:
            raise TypeError(f"{name}: parameter {parameter.name} has no annotation")
        hint = hints[parameter.name]
        if getattr(hint, "__name__", "") == "Context":
            context = parameter.name
            continue
        if text := texts.get(parameter.name):
            hint = Annotated[hint, msgspec.Meta(description=text)]
        needed = parameter.default is inspect.Parameter.empty
        fields.append((parameter.name, hint) if needed else (parameter.name, hint, parameter.default))
    arguments = msgspec.defstruct(f"{name}_arguments", fields, kw_only=True, forbid_unknown_fields=True)
    described: Json = {"name": name, "description": summary, "inputSchema": _schema(arguments)}
    if title:
        described["title"] = title
    returned = hints.get("return")
    if isinstance(returned, type) and issubclass(returned, msgspec.Struct):
        described["outputSchema"] = _schema(returned)
    described["annotations"] = {"readOnlyHint": read_only, "openWorldHint": False}
    if not read_only:
        described["annotations"]["destructiveHint"] = destructive
    return Tool(
        describe=described,
        function=function,
        arguments=arguments,
        context=context,
    )


def _schema(kind: type[msgspec.Struct]) -> Json:
    """The schema of a struct with the struct itself at the root, since MCP wants `type: object` there."""
    (root,), others = msgspec.json.schema_components((kind,), ref_template="#/$defs/{name}")
    schema: Json = dict(others.pop(root["$ref"].rpartition("/")[2])) if "$ref" in root else root
    schema.pop("title", None)
    return {**schema, "$defs": others} if others else schema


def _read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The description and the texts of the parameters, from a docstring with an `Args:` section."""
    summary, _, section = text.partition("\nArgs:\n")
    texts: dict[str, str] = {}
    current = ""
    for line in section.splitlines():
        if line.strip() and not line[0].isspace():
            break
        if (found := _PARAMETER.match(line)) and len(line) - len(line.lstrip()) <= 4:
            current = found[1]
            texts[current] = found[2].strip()
        elif current and line.strip():
            texts[current] += " " + line.strip()
    return summary.strip(), texts
