"""Writes the pages of `docs/reference` that say what the code says: every setting, every command, every message and
host call of Pi.

`python -m tests.reference_pages` writes them; a test fails while they are not what this would write.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec
import typer.main

from gateway.cli.main import application
from gateway.config.model import Config
from gateway.config.peer import INHERITED_ENV, INHERITED_PROXIES
from gateway.config.reading import Field, describe, fields_of
from gateway.protocol import pi_schema
from gateway.protocol.pi_messages import PAYLOADS
from tests.reference_host_calls import page as host_calls

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
NOT_EDITED = "<!-- Written by `make reference`; edit the code instead. -->"


def config_page() -> str:
    """Return the page of every setting."""
    usual = ", ".join(f"`{name}`" for name in INHERITED_ENV)
    proxies = ", ".join(f"`{name}`" for name in INHERITED_PROXIES)
    parts = [
        f"""# Configuration

{NOT_EDITED}

`tieline run`, `check` and `tools` read `tieline.toml`, or the JSON file of another client (`mcpServers`, or
`servers` as VS Code has it) as it is. Unknown keys are mistakes, and all mistakes are told at once, each with
file, line and key. The smallest file that does something:

```toml
[peers.everything]
command = ["npx", "-y", "@modelcontextprotocol/server-everything"]
```

Text marked ¹ may hold `${{VAR}}` or `${{VAR:-default}}`; `$${{` stands for a plain `${{`. Values marked ² may
also be a table that says where a secret lies: `{{ env = "NAME" }}`, `{{ file = "path" }}` or
`{{ keyring = "service/name" }}`, with `prefix = "Bearer "` where one is needed. What such a table gives, and
what a variable or key with a secret name holds, is redacted wherever it turns up in a recording. Paths
marked ³ may begin with `~`, and otherwise begin at the directory of the file.

A peer's process gets a few variables of our environment, what `inherit_env` names, and `env`. The few are
{usual}; and, unless
they hold credentials, {proxies}, in capitals or not.
"""
    ]
    parts += [_section(path, struct) for path, struct in _sections(Config, ())]
    return "\n".join(parts)


def _sections(struct: type[msgspec.Struct], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, struct
    for name, field in fields_of(struct).items():
        if field.section is not None:
            yield from _sections(field.section, (*path, name))
        elif field.sections is not None:
            yield from _sections(field.sections, (*path, name, "NAME"))


def _section(path: tuple[str, ...], struct: type[msgspec.Struct]) -> str:
    title = f"`[{'.'.join(path)}]`" if path else "Sections"
    about = (struct.__doc__ or "").strip()
    rows = ["| key | type | default | what |", "| --- | --- | --- | --- |"]
    rows += [_row(name, field, struct, path) for name, field in fields_of(struct).items()]
    return "\n".join([f"## {title}", "", about, "", *rows, ""])


def _row(name: str, field: Field, struct: type[msgspec.Struct], path: tuple[str, ...]) -> str:
    marks = "¹" if field.marked("expand") else ""
    marks += "²" if field.marked("refs") else ""
    marks += "³" if field.marked("path") else ""
    about = (field.meta.description if field.meta else None) or ""
    about += " No effect in this version." if field.marked("planned") else ""
    if field.section is not None or field.sections is not None:
        inner = ".".join((*path, name, *(("NAME",) if field.sections else ())))
        return f"| `{name}` | `[{inner}]` | | {about} |"
    return f"| `{name}` | {_type(field)}{marks} | {_default(name, struct)} | {about} |"


def _type(field: Field) -> str:
    if get_origin(field.base) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(field.base))
    return describe(field.hint)


def _default(name: str, struct: type[msgspec.Struct]) -> str:
    (field,) = [field for field in msgspec.structs.fields(struct) if field.name == name]
    if field.required:
        return "required"
    value: object = field.default
    if field.default_factory is not msgspec.NODEFAULT:
        value = field.default_factory()
    return "" if value in (None, [], {}) else f"`{msgspec.json.encode(value).decode()}`"


def commands_page() -> str:
    """Return the page of every command, with its help as it is."""
    root: Any = typer.main.get_command(application())
    parts = [f"# Commands\n\n{NOT_EDITED}\n"]
    for path, command, context in _commands(root, ("tieline",), None):
        help_text = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
        parts.append(f"## `{' '.join(path)}`\n\n```text\n{help_text}\n```\n")
    return "\n".join(parts)


def _commands(command: Any, path: tuple[str, ...], parent: Any) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    # Below its parent, whose settings a command has too.
    context = command.make_context(path[-1], [], parent=parent, resilient_parsing=True)
    yield path, command, context
    for name, inner in getattr(command, "commands", {}).items():
        yield from _commands(inner, (*path, name), context)


def pi_page() -> str:
    """Return the page of every message of the Pi extension protocol."""
    parts = [
        f"""# Pi extension protocol, version 1.0

{NOT_EDITED}

One JSON object a line, or a websocket text message. Members that are not named here are legal everywhere. As a JSON
Schema: [pi-protocol.json](pi-protocol.json). What a schema cannot say, who may send what and when, is in
[the Pi dialect](../explanation/pi.md).
"""
    ]
    defs: dict[str, Any] = pi_schema.schema()["$defs"]
    parts.append(_message("The envelope", pi_schema.schema()))
    of_type = {struct.__name__: type_ for type_, struct in PAYLOADS.items()}
    parts += [_message(f"`{type_}`", defs[name]) for name, type_ in of_type.items()]
    parts += [_message(_heading(name), part) for name, part in defs.items() if name not in of_type]
    return "\n".join(parts)


def _message(title: str, part: dict[str, Any]) -> str:
    rows = ["| member | type | |", "| --- | --- | --- |"]
    for name, member in part["properties"].items():
        needed = "required" if name in part["required"] else ""
        about = "; ".join(text for text in (needed, member.get("description", "")) if text)
        rows.append(f"| `{name}` | {_json_type(member)} | {about} |")
    return "\n".join([f"## {title}", "", part["description"], "", *rows, ""])


def _json_type(member: dict[str, Any]) -> str:
    if "$ref" in member:
        heading = _heading(member["$ref"].rpartition("/")[2])
        return f"[{heading.lower()}](#{heading.lower().replace(' ', '-')})"
    if "enum" in member:
        return ", ".join(f"`{choice}`" for choice in member["enum"])
    if member["type"] == "array":
        return f"array of {_json_type(member['items'])}"
    return f"{member['type']}, {member['minimum']} or more" if "minimum" in member else member["type"]


def _heading(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", " ", name).capitalize()


def pi_schema_file() -> str:
    """Return the JSON Schema of the Pi extension protocol."""
    return json.dumps(pi_schema.schema(), indent=2) + "\n"


def host_calls_page() -> str:
    """Return the page of every host call."""
    return host_calls(NOT_EDITED)


PAGES = {
    "config.md": config_page,
    "commands.md": commands_page,
    "host-calls.md": host_calls_page,
    "pi-protocol.md": pi_page,
    "pi-protocol.json": pi_schema_file,
}


def main() -> None:
    """Write the pages."""
    os.environ["COLUMNS"] = "80"
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
