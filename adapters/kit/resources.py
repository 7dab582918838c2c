"""What can be read by its URI: single resources, templates of URIs, and a source that is listed page by page.

Owns the matching of URIs against templates (`{name}` holds one segment, `{+name}` a whole path). Knows no protocol.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable
from typing import Any, Protocol, TypeAlias
from urllib.parse import unquote

import msgspec

from adapters.kit.encoding import encoded
from adapters.kit.errors import Json, ToolError
from adapters.kit.functions import Function, Signature, called, members_of, read
from adapters.kit.results import Blob

_VARIABLE = re.compile(r"\{(\+?)(\w+)\}")


class Resource(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """One entry of `resources/list`. `size` is in bytes."""

    uri: str
    name: str
    description: str = ""
    mime_type: str = ""
    size: int | None = None


Page: TypeAlias = tuple[list[Resource], str | None]


class Resources(Protocol):
    """What an adapter that has many resources implements; what is no coroutine is called in a worker thread."""

    def page(self, cursor: str | None) -> Page | Awaitable[Page]:
        """One page and the cursor of the next one. Raises `ToolError` for a cursor it never gave."""
        ...

    def read(self, uri: str) -> Blob | Awaitable[Blob]:
        """The content of one resource. Raises `ToolError`."""
        ...


class Template(msgspec.Struct, frozen=True):
    """A function that reads the resources of one URI, or of all that a template stands for."""

    uri: str
    signature: Signature
    mime_type: str
    pattern: re.Pattern[str]
    names: tuple[str, ...]

    @property
    def described(self) -> Json:
        """It as `resources/list` or `resources/templates/list` gives it."""
        about = {"name": self.signature.name, "description": self.signature.about, "mimeType": self.mime_type}
        return {"uriTemplate" if self.names else "uri": self.uri} | {k: v for k, v in about.items() if v}

    def match(self, uri: str) -> Json | None:
        """The variables in a URI, decoded; None where it is another's."""
        found = self.pattern.fullmatch(uri)
        return {name: unquote(value) for name, value in found.groupdict().items()} if found else None


def template(uri: str, function: Function, *, name: str = "", mime_type: str = "") -> Template:
    """Make a template. Raises `TypeError` where its variables are not the parameters of the function."""
    signature = read(function, name)
    names = tuple(found[2] for found in _VARIABLE.finditer(uri))
    wanted = [member.name for member in members_of(signature)]
    if sorted(names) != sorted(wanted):
        has, takes = " ".join(names) or "no variable", " ".join(wanted) or "no argument"
        raise TypeError(f"{uri} has {has}, and {signature.name} takes {takes}")
    pattern, end = "", 0
    for found in _VARIABLE.finditer(uri):
        inside = ".+" if found[1] else "[^/?#]+"
        pattern += re.escape(uri[end : found.start()]) + f"(?P<{found[2]}>{inside})"
        end = found.end()
    pattern += re.escape(uri[end:])
    return Template(uri, signature, mime_type, re.compile(pattern, re.DOTALL), names)


class Shelf:
    """All resources of an app."""

    def __init__(self, source: Resources | None) -> None:
        self.source = source
        self.templates: dict[str, Template] = {}

    def __bool__(self) -> bool:
        """Whether there is anything."""
        return self.source is not None or bool(self.templates)

    def listed(self) -> list[Json]:
        """The templates, as they are listed."""
        return [each.described for each in self.templates.values() if each.names]

    async def page(self, cursor: str | None) -> tuple[list[Any], str | None]:
        """One page of resources: the single ones first, then the source's."""
        single: list[Any] = [each.described for each in self.templates.values() if not each.names]
        if self.source is None:
            if cursor is not None:
                raise ToolError("invalid_request", "unknown cursor")
            return single, None
        page, following = await called(self.source.page, cursor)
        return ([*single, *page] if cursor is None else list(page)), following

    async def read(self, uri: str, context: object) -> Json:
        """One entry of the result of `resources/read`. Raises `ToolError`."""
        blob = await self._blob(uri, context)
        content: Json = {"uri": uri} | ({"mimeType": blob.mime_type} if blob.mime_type else {})
        if isinstance(blob.data, str):
            return {**content, "text": blob.data}
        return {**content, "blob": blob.packed}

    async def _blob(self, uri: str, context: object) -> Blob:
        for each in self.templates.values():
            found = each.match(uri)
            if found is None:
                continue
            try:
                returned = await each.signature.call(found, context, strict=False)
            except msgspec.ValidationError as fault:
                raise ToolError("invalid_request", f"{uri}: {fault}") from None
            if isinstance(returned, Blob):
                return returned
            if isinstance(returned, str | bytes):
                return Blob(data=returned, mime_type=each.mime_type)
            return Blob(data=encoded(returned).decode(), mime_type="application/json")
        if self.source is None:
            raise ToolError("io", f"no such resource: {uri}")
        return await called(self.source.read, uri)
