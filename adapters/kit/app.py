"""What an extension offers: tools, commands, prompts, resources, and handlers of the host's events.

Owns the registration of typed functions under these heads, and who is told when the offer changes. Knows no protocol
version, no request and no transport.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar, overload

import msgspec

from adapters.kit import functions
from adapters.kit.commands import Command
from adapters.kit.context import Forwarding
from adapters.kit.errors import Json, ToolError
from adapters.kit.functions import Names, Signature, read
from adapters.kit.hops import Hops
from adapters.kit.resources import Resources, Shelf, template
from adapters.kit.results import output_schema
from gateway.protocol.pi_messages import Requirement

if TYPE_CHECKING:
    from adapters.kit.testing import Testing

F = TypeVar("F", bound=Callable[..., Any])
List: TypeAlias = Literal["tools", "prompts", "resources"]
Dialect: TypeAlias = Literal["mcp", "pi"]


class Listener(Protocol):
    """One connection, as the app sees it."""

    def changed(self, what: List) -> None:
        """Tell that a list is another than it was."""
        ...

    def updated(self, uri: str) -> None:
        """Tell that a resource has another content, where somebody wants to know."""
        ...

    def announce(self, event: str, data: Json) -> None:
        """Tell that something has happened."""
        ...

    def log(self, level: str, data: Any) -> None:
        """Send a log message that belongs to no call."""
        ...


class Tool(msgspec.Struct, frozen=True):
    """One tool: its description as MCP's `tools/list` gives it, and how it is called."""

    describe: Json
    signature: Signature


class App:
    """An extension: `App(name, version)`, decorated functions, then `app.run()`."""

    def __init__(
        self,
        name: str,
        version: str = "0",
        *,
        instructions: str = "",
        resources: Resources | None = None,
        needs: Sequence[str | Requirement] = (),
        declares: Mapping[str, Any] | None = None,
        hops: Hops | None = None,
    ) -> None:
        """`needs` are the capabilities of its host calls, or requirements with a scope: a Pi host wants to know.

        `declares` are further members of Pi's `register`: `shortcuts`, `flags`, `tool_renderers`, `providers`, …
        `hops` is its own traffic with services behind it, where it has any that a host may want to know of.
        """
        self.name = name
        self.version = version
        self.instructions = instructions
        self.needs = [
            need if isinstance(need, Requirement) else Requirement(capability=need) for need in needs
        ]
        self.declares = dict(declares or {})
        self.tools: dict[str, Tool] = {}
        self.commands: dict[str, Command] = {}
        self.handlers: dict[str, Signature] = {}
        self.resources = Shelf(resources)
        self.completions: dict[tuple[str, str], Callable[..., Any]] = {}
        self.starters: list[Callable[[], Awaitable[None]]] = []
        self.closers: list[Callable[[], Awaitable[None]]] = []
        self.opening: Callable[[], Awaitable[None]] | None = None
        """Awaited before the first request is answered, where the host has to be asked or told something for it; a
        `ToolError` of its ends the program. MCP over stdio alone."""
        self.fault: ToolError | None = None
        """What it ends with."""
        self.listeners: list[Listener] = []
        """The connections that are open."""
        self.hops = Hops() if hops is None else hops
        self.log = logging.Logger(name)
        """Goes to the host, in the course of a call as part of that; to stderr where there is no host yet."""
        self.log.addHandler(Forwarding(self.listeners))

    def on_start(self, starter: Callable[[], Awaitable[None]]) -> None:
        """Have `starter` awaited on the loop before anybody is served; a `ToolError` of its ends the program."""
        self.starters.append(starter)

    def on_close(self, closer: Callable[[], Awaitable[None]]) -> None:
        """Have `closer` awaited before the process ends, however it is asked to."""
        self.closers.append(closer)

    @overload
    def tool(self, function: F, /) -> F: ...

    @overload
    def tool(
        self,
        function: None = None,
        /,
        *,
        name: str = "",
        read_only: bool = False,
        destructive: bool = False,
        title: str = "",
        names: Names = "python",
        lenient: bool = False,
    ) -> Callable[[F], F]: ...

    def tool(
        self,
        function: F | None = None,
        /,
        *,
        name: str = "",
        read_only: bool = False,
        destructive: bool = False,
        title: str = "",
        names: Names = "python",
        lenient: bool = False,
    ) -> F | Callable[[F], F]:
        """Offer a function as a tool, under its own name unless given.

        Its parameters must be annotated: they become the input schema, with the texts of the docstring's `Args:`, or
        of a `msgspec.Meta(description=...)` in the annotation. A parameter annotated `kit.Context` or `kit.Host` is
        given by the kit. A returned struct, dataclass, dict or list becomes structured content with an output schema;
        its text is what its `text()` gives, or its JSON. A returned `kit.Blob` is a picture or a sound.

        `names="camel"` writes its arguments as `filePath`; with `lenient` those that it does not know are passed over.
        Raises `TypeError` for a parameter without annotation.
        """

        def register(function: F) -> F:
            signature = read(function, name, names=names, lenient=lenient)
            described: Json = {
                "name": signature.name,
                "description": signature.about,
                "inputSchema": signature.schema,
            }
            if title:
                described["title"] = title
            if (schema := output_schema(signature.returns)) is not None:
                described["outputSchema"] = schema
            described["annotations"] = {"readOnlyHint": read_only, "openWorldHint": False}
            if not read_only:
                described["annotations"]["destructiveHint"] = destructive
            self.tools[signature.name] = Tool(described, signature)
            self.changed("tools")
            return function

        return register(function) if function is not None else register

    @overload
    def command(self, function: F, /) -> F: ...

    @overload
    def command(self, function: None = None, /, *, name: str = "") -> Callable[[F], F]: ...

    def command(self, function: F | None = None, /, *, name: str = "") -> F | Callable[[F], F]:
        """Offer a function as a command, `/name words…`; in MCP as a prompt.

        Words become its arguments in order, turned into numbers where these are wanted; the last one takes all that
        are left. What it returns is shown.
        """
        return self._command(function, name, "command")

    @overload
    def prompt(self, function: F, /) -> F: ...

    @overload
    def prompt(self, function: None = None, /, *, name: str = "") -> Callable[[F], F]: ...

    def prompt(self, function: F | None = None, /, *, name: str = "") -> F | Callable[[F], F]:
        """Offer a function as a prompt; in Pi as a command. It returns the text, or `kit.Message`s."""
        return self._command(function, name, "prompt")

    def resource(self, uri: str, *, name: str = "", mime_type: str = "text/plain") -> Callable[[F], F]:
        """Offer what a function returns under a URI: text, bytes, a `kit.Blob`, or anything else as JSON.

        In a template, `{name}` stands for one segment and `{+name}` for the rest of a path; they are the function's
        arguments. Only MCP has resources. Raises `TypeError` where variables and arguments differ.
        """

        def register(function: F) -> F:
            self.resources.templates[uri] = template(uri, function, name=name, mime_type=mime_type)
            self.changed("resources")
            return function

        return register

    def completion(self, of: str, argument: str) -> Callable[[F], F]:
        """Have a function complete an argument of a prompt, a command or a resource template.

        It takes what was typed so far and, if it has a second parameter, the other arguments; it returns values, best
        first. An argument that is a `Literal` or a `bool` needs none. `of` is the name or the template's URI.
        """

        def register(function: F) -> F:
            self.completions[of, argument] = function
            return function

        return register

    def on(self, event: str) -> Callable[[F], F]:
        """Have a function called at an event of the host: `session_start`, `tool_call`, `tool_result`, …

        It is given the event's data, as its annotation says (a dict, or a struct of the members that it reads), and
        returns its decision, such as `{"block": True, "reason": "…"}`, or None for no opinion. What it raises is its
        fault, and what that means is the host's to say. In MCP there are `session_start` and `session_shutdown` alone.
        """

        def register(function: F) -> F:
            signature = read(function, f"on_{event}")
            if event in self.handlers:
                raise TypeError(f"{event} has a handler: {self.handlers[event].function.__name__}")
            if len(functions.members_of(signature)) > 1:
                raise TypeError(f"{function.__name__}: a handler takes the event, and what the kit gives")
            self.handlers[event] = signature
            return function

        return register

    def changed(self, what: List) -> None:
        """Tell every host that a list is another than it was. Registering a function does so by itself."""
        for listener in self.listeners:
            listener.changed(what)

    def updated(self, uri: str) -> None:
        """Tell whoever has subscribed to a resource that it has another content."""
        for listener in self.listeners:
            listener.updated(uri)

    def announce(self, event: str, data: Mapping[str, Any]) -> None:
        """Tell every host that something has happened: a log entry with the event's name and its data."""
        for listener in self.listeners:
            listener.announce(event, dict(data))

    def run(self, arguments: Sequence[str] | None = None) -> None:
        """Serve until the other side has gone, or a signal comes.

        `--dialect mcp` (the usual one) or `pi`; `--listen stdio` (the usual), `unix:PATH` or `ws://127.0.0.1:PORT`.
        They are read from `arguments`, from the command line where there are none.
        """
        from adapters.kit import serving  # it knows the sessions, which know the app

        serving.run_from(self, arguments)

    def testing(self, dialect: Dialect = "pi", **host: Any) -> AbstractAsyncContextManager[Testing]:
        """Drive it in memory, over real messages of the dialect: `async with app.testing() as ext: …`.

        `host` are what stands for the host's side, see `adapters.kit.testing.Testing`.
        """
        from adapters.kit.testing import drive  # it knows the sessions, which know the app

        return drive(self, dialect, **host)

    def _command(
        self, function: F | None, name: str, kind: Literal["command", "prompt"]
    ) -> F | Callable[[F], F]:
        def register(function: F) -> F:
            signature = read(function, name)
            self.commands[signature.name] = Command(signature, kind)
            self.changed("prompts")
            return function

        return register(function) if function is not None else register
