"""Writes `docs/reference/host-calls.md`: what each host call takes and gives, its errors and its bounds.

Params and bounds come from the code. Outputs and errors are told here; that every reason told is one the code gives is
held by `tests/test_reference_host_calls.py`.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any, Final

import msgspec

from gateway.calls import host_events, host_ui
from gateway.calls.host import bounds, command_calls, file_calls, http_calls, log_calls, tool_calls
from gateway.protocol.capabilities import TOOLS

ROOT: Final = Path(__file__).parents[1]

Forms = dict[str, type[msgspec.Struct]]

_FS: Final[Forms] = {
    str(form.__struct_config__.tag): form
    for form in (
        file_calls.Read, file_calls.Write, file_calls.Append, file_calls.List, file_calls.Stat, file_calls.Mkdir,
        file_calls.Delete, file_calls.Rename, file_calls.Copy,
    )
}  # fmt: skip
_EVENTS: Final[Forms] = {
    str(form.__struct_config__.tag): form
    for form in (host_events.Emit, host_events.Subscribe, host_events.Unsubscribe, host_events.Receive)
}

OUTPUTS: Final[dict[str, dict[str, str]]] = {
    "exec": {
        "stdout, stderr": "text; empty where it was given in chunks `{stdout}` and `{stderr}`",
        "code": "the exit code, or 128 and the number of the signal",
        "killed": "whether the gateway has ended it",
        "truncated": "whether there was more output than may be kept",
        "limit": "`time`, `output` or `processes`, where it went over one",
    },
    "fs read": {
        "content / content_bytes": "text, or base64 where it is none",
        "size_bytes": "of the whole file",
        "truncated": "whether the file goes on",
    },
    "fs write, append": {"size_bytes": "that were written", "created": "whether the file is new"},
    "fs list": {
        "entries": "by name: `name`, `type` (`file`, `directory`, `link`, `other`), `size_bytes` of a file, "
        "`modified_ms`",
        "truncated": "whether there are more",
    },
    "fs stat": {"type, size_bytes, modified_ms": "as an entry of `list`"},
    "fs mkdir": {"created": "whether it is new"},
    "fs delete": {"deleted": "what it was: `file`, `link` or `directory`"},
    "fs rename": {"": "nothing"},
    "fs copy": {"size_bytes": "that were copied"},
    "http": {
        "status, headers": "names in lower case, several of one name joined by commas; with `stream` the first chunk",
        "body / body_bytes": "text, or base64 where it is none; with `stream` in chunks",
        "size_bytes": "of the body, unpacked",
        "duration_ms": "until the last byte",
    },
    "tool": {
        "content": "parts of type `text` and `image`, as Pi's tools give them",
        "details": "`truncation` and limits that were reached; of `edit` `diff`, `patch`, `firstChangedLine`",
        "structuredContent": "of `read` the text or image, of `bash` `output`, `truncated`, `exit_code`, "
        "`wall_time_seconds`",
        "isError": "true for a command that ends with another code than 0",
    },
    "env": {"values": "the value of each name, null for one that is not set"},
    "log": {"ok": "true", "schema": "`pi.ext.log.v1`", "event": "as given"},
    "events emit": {"delivered": "how many extensions will hear of it"},
    "events subscribe, unsubscribe": {"events": "all names that are subscribed to now"},
    "events receive": {
        "events": "what has come: `event`, `data`, `from`",
        "dropped": "how many were lost because nobody fetched them",
    },
}

ERRORS: Final[tuple[tuple[str, str, str], ...]] = (
    ("invalid_request", "unknown_method, unknown_tool, unknown_operation", "nothing has this name"),
    ("invalid_request", "capability_mismatch", "the call states another capability than it needs"),
    ("invalid_request", "bad_params", "the params have another form than below"),
    ("invalid_request", "not_regular", "a path is a folder, a device, a pipe: `errno` `EISDIR` or `EINVAL`"),
    ("invalid_request", "too_large", "a file is longer than a call may take: `errno` `EFBIG`"),
    (
        "invalid_request",
        "edit_{error.reason}, not_text",
        "an edit that fits the file nowhere, or more than once",
    ),
    ("denied", "no_verdict", "no decision allows exactly this call"),
    ("denied", "outside_root", "a path leads out of the roots, by a link or otherwise"),
    ("denied", "out_of_scope", "a link or a redirect leads to what the call may not touch"),
    ("denied", "hard_link", "a file that has other names would be changed under all of them"),
    (
        "denied",
        "private_address",
        "a host lies at an address that is not public: see `extensions.private_hosts`",
    ),
    ("io", "not_found, not_executable, no_directory", "a command cannot be started: `errno` says why"),
    ("io", "no_address, network, tls, bad_response", "a server cannot be reached, trusted or understood"),
    ("io", "redirect", "more redirects than are followed, or one that leads nowhere"),
    ("io", "encoding, damaged, too_large, bomb", "a body that is not unpacked any further"),
    ("io", "too_much_{ended.limit}", "a shell command was ended; `output` is the end of what it said"),
    ("timeout", "deadline", "the call took longer than it may"),
    ("timeout", "command_time, http_time, connect_time, search_time", "a part of it did; `output` as above"),
    ("internal", "", "a fault of the gateway's own, which its log tells more of"),
)


def page(not_edited: str) -> str:
    """Return the page of every host call."""
    parts = [
        f"""# Host calls

{not_edited}

What an extension may ask of the gateway, by `host_call`: what each takes and gives.
[The way of one](../explanation/host-calls.md) is told elsewhere. Whether it may happen is
[decided first](../explanation/policy.md), by the capability that the gateway derives from `method` and `params`.
Members that are not named here mean nothing. Every call ends once, with the output below or with an error. A call that
is cancelled ends what it has begun, a command with everything that it started, also what has left its process group.
`session` has [a page of its own](../explanation/sessions.md).

## Errors

`code` is one of five, `details.reason` says more, and `details.errno` is a POSIX name where the system has refused
something; `enoent` and others of its kind in lower case are then the reason.

| code | reason | when |
| --- | --- | --- |"""
    ]
    parts += [f"| `{code}` | {_names(reason)} | {when} |" for code, reason, when in ERRORS]
    parts += ["", *_section("exec", {"": command_calls.ExecCall})]
    parts += ["### `options`", "", *_table(command_calls.Options), *_outputs("exec")]
    parts += _section("fs", _FS, "Files beneath the roots, one operation a call.")
    parts += [line for name in OUTPUTS if name.startswith("fs") for line in _outputs(name)]
    parts += _section("http", {"": http_calls.HttpCall})
    parts += _outputs("http")
    parts += _section("tool", {"": tool_calls.ToolCall})
    for name, form in tool_calls.FORMS.items():
        parts += [f"### `{name}`", "", f"{_about(form)} Capability: `{TOOLS[name]}`.", "", *_table(form)]
    parts += ["### `edits` of `edit`", "", *_table(tool_calls.Replacement), *_outputs("tool")]
    parts += _section("env", {"": log_calls.EnvCall})
    parts += _outputs("env")
    parts += _section("log", {"": log_calls.LogCall})
    parts += _outputs("log")
    parts += _section("events", _EVENTS, "What the extensions of one session tell each other.")
    parts += [line for name in OUTPUTS if name.startswith("events") for line in _outputs(name)]
    parts += _section("ui", {"": host_ui.Request})
    parts += ["## Bounds", "", "A call may ask for less, never for more.", "", *_bounds()]
    return "\n".join(parts).rstrip() + "\n"


def _section(method: str, forms: Forms, about: str = "") -> list[str]:
    lines = [f"## `{method}`", "", *([about, ""] if about else [])]
    for operation, form in forms.items():
        if operation:
            lines += [f"### `op`: `{operation}`", ""]
        lines += [_about(form), "", *_table(form)]
    return lines


def _about(form: type[msgspec.Struct]) -> str:
    return " ".join((inspect.getdoc(form) or "").split())


def _table(form: type[msgspec.Struct]) -> list[str]:
    (reference,), defs = msgspec.json.schema_components([form], ref_template="{name}")
    part = defs[reference["$ref"]]
    rows = ["| param | type | default |", "| --- | --- | --- |"]
    for name, member in part["properties"].items():
        if name == "op":
            continue
        usual = "required" if name in part["required"] else _usual(member.get("default"))
        rows.append(f"| `{name}` | {_type(member)} | {usual} |")
    return [*rows, ""]


def _usual(value: Any) -> str:
    return "" if value is None or isinstance(value, dict) else f"`{msgspec.json.encode(value).decode()}`"


def _type(member: dict[str, Any]) -> str:
    if "$ref" in member:
        return member["$ref"].lower()
    if "anyOf" in member:
        kinds = dict.fromkeys(_type(each) for each in member["anyOf"] if each.get("type") != "null")
        return ", ".join(kind for kind in kinds if kind != "whole number" or "number" not in kinds)
    if "enum" in member:
        return ", ".join(f"`{each}`" for each in member["enum"])
    if member.get("contentEncoding"):
        return "base64"
    kind = member.get("type", "anything")
    if kind == "array":
        return f"array of {_type(member['items'])}"
    return "whole number" if kind == "integer" else str(kind)


def _outputs(name: str) -> list[str]:
    rows = [f"Output of `{name}`:", "", "| member | what |", "| --- | --- |"]
    return [*rows, *(f"| {_names(member)} | {what} |" for member, what in OUTPUTS[name].items()), ""]


def _names(text: str) -> str:
    shown = re.sub(r"\{\w+\.reason\}|\{\w+\.limit\}", "…", text)
    return re.sub(r"[\w…]+", lambda found: f"`{found.group()}`", shown)


def _bounds() -> list[str]:
    rows = ["| bound | | |", "| --- | --- | --- |"]
    abouts = _docstrings(inspect.getsource(bounds.Bounds))
    rows += [
        f"| `{field.name}` | {_number(field.name, field.default)} | {abouts.get(field.name, '')} |"
        for field in msgspec.structs.fields(bounds.Bounds)
    ]
    return rows


def _number(name: str, value: Any) -> str:
    if name.endswith("_s"):
        return f"{value:g} s"
    if isinstance(value, int) and value % bounds.KIB == 0 and ("bytes" in name or "free" in name):
        return f"{value // bounds.MIB} MiB" if value % bounds.MIB == 0 else f"{value // bounds.KIB} KiB"
    return f"{value:,}"


def _docstrings(source: str) -> dict[str, str]:
    """What the code says beneath each member."""
    found = re.findall(r'^    (\w+): [^\n]*\n    """(.*?)"""', source, re.MULTILINE | re.DOTALL)
    return {name: " ".join(about.split()) for name, about in found}
