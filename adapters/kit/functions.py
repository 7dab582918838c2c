"""Typed functions as something that can be called from outside: a schema, and arguments turned into a call.

Owns the reading of annotations and docstrings. Knows no protocol and no transport.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import sys
import traceback
import typing
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Annotated, Any, Literal, TypeAlias, cast

import msgspec

from adapters.kit.errors import Escaped, Json, ToolError

Function: TypeAlias = Callable[..., Any]
Names: TypeAlias = Literal["python", "camel"]
"""How arguments are written outside: as the parameters are, or as `filePath` for `file_path`."""

_PARAMETER = re.compile(r"^\s+(\w+):\s+(.*)$")


class Injected:
    """A parameter that is annotated with a kind of this is no argument: the kit gives it."""

    @classmethod
    def of(cls, context: Any) -> Any:
        """What a call with this context is given."""
        raise NotImplementedError


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    """One function as it is called from outside."""

    name: str
    about: str
    """The docstring without its sections."""
    function: Function
    arguments: type[msgspec.Struct]
    injected: dict[str, type[Injected]]
    returns: Any
    """The annotation of the result; None where there is none."""

    @property
    def schema(self) -> Json:
        """The JSON schema of the arguments, an object."""
        return schema_of(self.arguments)

    async def call(self, arguments: Json, context: object, *, strict: bool = True) -> Any:
        """Call the function: a coroutine on the loop, any other in a worker thread.

        Without `strict`, text is taken for a number or a truth where one is wanted. Raises
        `msgspec.ValidationError` for arguments that do not fit, and whatever the function raises.
        """
        given = msgspec.structs.asdict(msgspec.convert(arguments, self.arguments, strict=strict))
        for name, kind in self.injected.items():
            given[name] = kind.of(context)
        return await called(self.function, **given)


def read(function: Function, name: str = "", *, names: Names = "python", lenient: bool = False) -> Signature:
    """Read a function. `lenient` passes over arguments that it does not know.

    Raises `TypeError` for a parameter that has no annotation or cannot be a value of JSON.
    """
    name = name or function.__name__
    hints = typing.get_type_hints(function, include_extras=True)
    about, texts = _read_docstring(inspect.getdoc(function) or "")
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    injected: dict[str, type[Injected]] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(f"{name}: parameter {parameter.name} must be an ordinary one, without * and /")
        if parameter.name not in hints:
            raise TypeError(f"{name}: parameter {parameter.name} has no annotation")
        hint: Any = hints[parameter.name]
        if is_injected(hint):
            injected[parameter.name] = hint
            continue
        if text := texts.get(parameter.name):
            hint = Annotated[hint, msgspec.Meta(description=text)]
        needed = parameter.default is inspect.Parameter.empty
        fields.append((parameter.name, hint) if needed else (parameter.name, hint, parameter.default))
    arguments = msgspec.defstruct(
        f"{name}_arguments",
        fields,
        kw_only=True,
        forbid_unknown_fields=not lenient,
        rename="camel" if names == "camel" else None,
    )
    try:
        schema_of(arguments)
    except TypeError as fault:
        raise TypeError(f"{name}: {fault}") from None
    return Signature(
        name=name,
        about=about,
        function=function,
        arguments=arguments,
        injected=injected,
        returns=hints.get("return"),
    )


async def called(function: Function, /, *arguments: Any, **named: Any) -> Any:
    """Call a function: a coroutine on the loop, any other in a worker thread.

    Raises what the function raises; `Escaped` in the place of what would end the loop, leave the call without an
    answer, or pass for a cancellation that nobody asked for.
    """
    try:
        if inspect.iscoroutinefunction(function):
            return await function(*arguments, **named)
        return await asyncio.to_thread(_in_thread, function, *arguments, **named)
    except (SystemExit, KeyboardInterrupt) as fault:
        raise Escaped from fault
    except asyncio.CancelledError as fault:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise Escaped from fault


def _in_thread(function: Function, /, *arguments: Any, **named: Any) -> Any:
    try:
        return function(*arguments, **named)
    except StopIteration as fault:  # no future takes it, so that the call would wait for good
        raise Escaped from fault


def own_fault(fault: Exception, what: str) -> ToolError:
    """A fault of the extension's own code: told to whoever runs it, and to the caller without its words."""
    met = fault.__cause__ if isinstance(fault, Escaped) else fault
    traceback.print_exception(met, file=sys.stderr)
    return ToolError("internal", f"{what} failed ({type(met).__name__}); see its log")


def schema_of(kind: Any) -> Json:
    """The schema of a type with the type itself at the root, since a reference there is read by few."""
    (root,), others = msgspec.json.schema_components((kind,), ref_template="#/$defs/{name}")
    schema: Json = root
    if "$ref" in root:
        name = root["$ref"].rpartition("/")[2]
        schema = dict(others[name])
        if root["$ref"] not in str(others):
            del others[name]
    schema.pop("title", None)
    return {**schema, "$defs": others} if others else schema


def is_record(hint: Any) -> bool:
    """Whether values of a type are objects with known members: a struct, a dataclass or a `TypedDict`."""
    kind = cast("type[Any] | None", hint if isinstance(hint, type) else None)
    return kind is not None and (
        issubclass(kind, msgspec.Struct) or is_dataclass(kind) or typing.is_typeddict(kind)
    )


def is_injected(hint: Any) -> bool:
    """Whether a parameter is given by the kit."""
    return isinstance(hint, type) and issubclass(cast("type[Any]", hint), Injected)


def members_of(signature: Signature) -> list[msgspec.structs.FieldInfo]:
    """The parameters that are arguments, in their order."""
    return list(msgspec.structs.fields(signature.arguments))


def choices_of(hint: Any) -> list[str]:
    """The values that an argument can have, as text, where its type says them; else none."""
    schema = schema_of(hint)
    if schema.get("type") == "boolean":
        return ["true", "false"]
    return [value for value in cast("list[Any]", schema.get("enum", [])) if isinstance(value, str)]


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
