"""What an extension registers beside tools, commands and hooks: shortcuts, flags, renderers, providers.

Owns their forms, which of them can be taken, and whose one is where several want the same. A wrong one costs itself
alone, and is told. They are declarations for a core: nothing here draws, presses keys or talks to a provider. Names
that Pi keeps for itself are those of its version 1.6.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, cast

import msgspec

from gateway.config.references import looks_secret

MOST: Final = 256
"""Declarations of one kind, of one extension."""
MODIFIERS: Final = ("ctrl", "alt", "shift", "super")
KEYS: Final = frozenset(
    (
        *(
            "enter",
            "tab",
            "escape",
            "space",
            "backspace",
            "delete",
            "insert",
            "home",
            "end",
            "pageup",
            "pagedown",
        ),
        *("up", "down", "left", "right"),
        *(f"f{number}" for number in range(1, 25)),
    )
)
RESERVED_KEYS: Final = frozenset(
    (
        *(
            "escape",
            "enter",
            "ctrl+c",
            "ctrl+d",
            "ctrl+z",
            "ctrl+p",
            "ctrl+shift+p",
            "ctrl+l",
            "ctrl+o",
            "ctrl+t",
        ),
        *("ctrl+g", "ctrl+x", "ctrl+k", "shift+tab", "alt+enter"),
    )
)
"""Keys by which a person interrupts, leaves, submits or chooses a model: no extension gets them."""
RESERVED_FLAGS: Final = frozenset(
    (
        *(
            "api-key",
            "append-system-prompt",
            "approve",
            "continue",
            "exclude-tools",
            "export",
            "extension",
            "fork",
        ),
        *("help", "list-models", "mode", "model", "models", "name", "no-approve", "no-builtin-tools"),
        *("no-context-files", "no-extensions", "no-mcp", "no-prompt-templates", "no-session", "no-skills"),
        *("no-themes", "no-tools", "offline", "print", "prompt-template", "provider", "resume", "session"),
        *("session-dir", "session-id", "skill", "system-prompt", "theme", "thinking", "tools", "tui-mode"),
        *("use-theme", "verbose", "version"),
    )
)
RESERVED_COMMANDS: Final = frozenset(
    (
        *(
            "settings",
            "model",
            "tree",
            "thinking",
            "scoped-models",
            "export",
            "import",
            "share",
            "bug",
            "copy",
        ),
        *("name", "session", "changelog", "hotkeys", "fork", "clone", "trust", "login", "logout", "new"),
        *("compact", "resume", "reload", "quit"),
    )
)
_FLAG: Final = re.compile(r"[a-z][a-z0-9-]{0,63}")
_REFERENCE: Final = re.compile(r"\$\{?[A-Za-z_][A-Za-z0-9_]*\}?")

Kind: TypeAlias = Literal["shortcut", "flag", "message_renderer", "tool_renderer", "provider"]
MEMBERS: Final[dict[Kind, str]] = {
    "shortcut": "shortcuts",
    "flag": "flags",
    "message_renderer": "message_renderers",
    "tool_renderer": "tool_renderers",
    "provider": "providers",
}
"""The member of `register` in which each kind is declared, a list of objects."""
Form: TypeAlias = Literal["text", "markdown", "code", "diff", "json", "table", "image", "hidden"]


class Hint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How something is best shown. A core that knows no form of these shows the text."""

    form: Form
    title: str = ""
    language: str = ""
    """Of `code`."""
    columns: list[str] = []
    """Of `table`: the members of each row that are shown, in order."""
    at: str = ""
    """A JSON Pointer to what is shown, in the output of a tool or the details of a message; empty means all of it."""
    collapsed: bool = False


class _Shortcut(msgspec.Struct):
    key: str
    description: str = ""


class _Flag(msgspec.Struct):
    name: str
    type: Literal["boolean", "string"] = "boolean"
    default: bool | str | None = None
    description: str = ""


class _MessageRenderer(msgspec.Struct):
    custom_type: str
    hint: Hint


class _ToolRenderer(msgspec.Struct):
    tool: str
    call: Hint | None = None
    result: Hint | None = None


class _Model(msgspec.Struct):
    id: str


class _Provider(msgspec.Struct):
    name: str
    base_url: str
    api: str
    models: list[_Model]


class Declared(msgspec.Struct, frozen=True):
    """One declaration that can be taken."""

    kind: Kind
    name: str
    """By which it is known, and by which another one collides with it."""
    item: dict[str, Any]
    """As it was declared; a shortcut's `key` in its one spelling."""


class Refused(msgspec.Struct, frozen=True):
    """One declaration that cannot be taken."""

    kind: Kind
    name: str
    why: str
    """The end of a sentence."""

    @property
    def sentence(self) -> str:
        """The whole sentence."""
        return f"{self.kind.replace('_', ' ')} `{self.name[:64]}` {self.why}"


class Extras(msgspec.Struct, frozen=True):
    """What one extension has declared."""

    declared: tuple[Declared, ...] = ()
    refused: tuple[Refused, ...] = ()


class Collision(msgspec.Struct, frozen=True):
    """Two extensions want the same."""

    kind: Kind
    name: str
    owner: str
    """Who has it: the first in the order of the configuration."""
    other: str

    @property
    def sentence(self) -> str:
        """The whole sentence."""
        what = self.kind.replace("_", " ")
        return f"{what} `{self.name[:64]}` of {self.other} is not offered: {self.owner} has it already"


class Union(msgspec.Struct, frozen=True):
    """What the extensions of a session have declared together: members of `register`, an `extension` in each item."""

    members: dict[str, list[dict[str, Any]]]
    collisions: tuple[Collision, ...]


def read_extras(payload: Mapping[str, Any]) -> Extras:
    """Read the payload of a `register`; what of it is no list of objects is refused as a whole."""
    declared: list[Declared] = []
    refused: list[Refused] = []
    seen: set[tuple[Kind, str]] = set()
    for kind, member in MEMBERS.items():
        listed = payload.get(member)
        if listed is None:
            continue
        if not isinstance(listed, list):
            refused.append(Refused(kind, member, "cannot be read: it must be a list"))
            continue
        items = cast(list[object], listed)
        if len(items) > MOST:
            refused.append(Refused(kind, member, f"has more than {MOST}: the first ones count"))
        for index, item in enumerate(items[:MOST]):
            one = _read(kind, item, f"{member}[{index}]")
            if isinstance(one, Declared) and (kind, one.name) in seen:
                one = Refused(kind, one.name, "is declared twice: the first one counts")
            if isinstance(one, Refused):
                refused.append(one)
            else:
                seen.add((kind, one.name))
                declared.append(one)
    return Extras(tuple(declared), tuple(refused))


def _read(kind: Kind, item: object, place: str) -> Declared | Refused:
    if not isinstance(item, dict):
        return Refused(kind, place, "cannot be read: it must be an object")
    table = cast(dict[str, Any], item)
    form, read = _READERS[kind]
    try:
        name, why, more = read(msgspec.convert(table, form), table)
    except msgspec.ValidationError as error:
        return Refused(kind, place, f"cannot be read: {error}")
    if why:
        return Refused(kind, name or place, why)
    return Declared(kind, name, {**table, **more})


_Read: TypeAlias = tuple[str, str, dict[str, Any]]
"""A name, what is wrong, and members in the place of those that were declared."""


def key_of(text: str) -> str:
    """Return a key with its modifiers in the one spelling: `ctrl+shift+t`; empty where it is none."""
    words = text.lower().split("+")
    if words[-2:] == ["", ""]:
        # The key is the `+` itself.
        words[-2:] = ["+"]
    *modifiers, key = words
    wanted = set(modifiers)
    if len(wanted) != len(modifiers) or not wanted <= set(MODIFIERS):
        return ""
    if key not in KEYS and not (len(key) == 1 and key.isprintable() and not key.isspace()):
        return ""
    return "+".join((*(each for each in MODIFIERS if each in wanted), key))


def _shortcut(read: _Shortcut, table: dict[str, Any]) -> _Read:
    del table
    key = key_of(read.key)
    if not key:
        known = ", ".join(f"`{one}`" for one in MODIFIERS)
        return read.key, f"is no key: write modifiers ({known}) and one key, as `ctrl+shift+t`", {}
    if key in RESERVED_KEYS:
        return key, "is reserved: people interrupt, leave and submit with it", {}
    if "+" not in key and len(key) == 1:
        return key, "would take a character from whoever types: add a modifier", {}
    return key, "", {"key": key}


def _flag(read: _Flag, table: dict[str, Any]) -> _Read:
    del table
    if not _FLAG.fullmatch(read.name):
        return read.name, "must begin with a small letter, and have letters, digits and `-` only", {}
    if read.name in RESERVED_FLAGS:
        return read.name, "is reserved: the core has an option of that name", {}
    is_bool = isinstance(read.default, bool)
    if read.default is not None and is_bool != (read.type == "boolean"):
        return read.name, f"has a default that is no {read.type}", {}
    return read.name, "", {"type": read.type}


def _message_renderer(read: _MessageRenderer, table: dict[str, Any]) -> _Read:
    del table
    return read.custom_type, "" if read.custom_type else "needs a `custom_type`", {}


def _tool_renderer(read: _ToolRenderer, table: dict[str, Any]) -> _Read:
    del table
    if not read.tool:
        return "", "needs the name of a `tool`", {}
    return (
        read.tool,
        "" if read.call or read.result else "says neither how a `call` nor how a `result` is shown",
        {},
    )


def _provider(read: _Provider, table: dict[str, Any]) -> _Read:
    if not read.name or not read.models or not all(model.id for model in read.models):
        return read.name, "needs a `name`, and `models` that each have an `id`", {}
    if not re.fullmatch(r"https?://[^\s/@]+(/\S*)?", read.base_url):
        return (
            read.name,
            "needs a `base_url` that begins with `https://` or `http://`, without credentials",
            {},
        )
    secret = _secret(table)
    if secret:
        # Not the value, which is one.
        return read.name, f"holds a secret in `{secret}`: name a variable instead, as `$NAME`", {}
    return read.name, "", {}


def _secret(value: object, name: str = "") -> str:
    """Return the name of a member that holds a secret itself, and names no variable that does."""
    if isinstance(value, dict):
        inner = cast(dict[str, object], value).items()
        return next((found for key, item in inner if (found := _secret(item, str(key)))), "")
    if isinstance(value, list):
        return next((found for item in cast(list[object], value) if (found := _secret(item, name))), "")
    if not isinstance(value, str) or not looks_secret(name) or name.lower().endswith("env"):
        return ""
    words = value.split()
    return "" if not words or _REFERENCE.fullmatch(words[-1]) else name


_READERS: Final[dict[Kind, tuple[Any, Callable[[Any, dict[str, Any]], _Read]]]] = {
    "shortcut": (_Shortcut, _shortcut),
    "flag": (_Flag, _flag),
    "message_renderer": (_MessageRenderer, _message_renderer),
    "tool_renderer": (_ToolRenderer, _tool_renderer),
    "provider": (_Provider, _provider),
}


def union(extensions: Iterable[tuple[str, Extras]]) -> Union:
    """Put together what extensions have declared, in the order of the configuration: of one name the first counts.

    Renderers of tools are known by their extension too, whose tools they are about.
    """
    members: dict[str, list[dict[str, Any]]] = {member: [] for member in MEMBERS.values()}
    owners: dict[tuple[str, str, str], str] = {}
    collisions: list[Collision] = []
    for extension, extras in extensions:
        for one in extras.declared:
            whose = extension if one.kind == "tool_renderer" else ""
            owner = owners.setdefault((one.kind, whose, one.name), extension)
            if owner == extension:
                members[MEMBERS[one.kind]].append({**one.item, "extension": extension})
            else:
                collisions.append(Collision(one.kind, one.name, owner, extension))
    return Union(members, tuple(collisions))


def is_protected(command: str) -> bool:
    """Whether a command has the name of one that the core has itself, with a slash before it or not."""
    return command.removeprefix("/").lower() in RESERVED_COMMANDS


def protected(commands: Sequence[str]) -> list[str]:
    """Return the sentences about commands that a Pi core is not offered."""
    return [
        f"command `/{name.removeprefix('/')}` is the core's own, and is not offered to it"
        for name in commands
        if is_protected(name)
    ]


def hint_for(extras: Extras, tool: str) -> dict[str, Any]:
    """Return the hints about a tool's calls and results: `{"call": …, "result": …}`, what is there of it."""
    for one in extras.declared:
        if one.kind == "tool_renderer" and one.name == tool:
            return {part: one.item[part] for part in ("call", "result") if one.item.get(part)}
    return {}
