"""What is peculiar to TypeScript's server behind `typescript-language-server`: it can be asked what is wrong.

The language server itself only pushes, without a version, and not at all where a file was right and still is; so
nobody could tell an answer from silence. Owns the shapes of tsserver's own answers. Pure.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

Json: TypeAlias = dict[str, Any]

COMMAND = "typescript.tsserverRequest"
"""The command that passes a request on to tsserver."""
QUESTIONS = ("syntacticDiagnosticsSync", "semanticDiagnosticsSync", "suggestionDiagnosticsSync")
_SEVERITIES = {"error": 1, "warning": 2, "message": 3, "suggestion": 4}


class _Point(msgspec.Struct):
    """Both from 1, `offset` in UTF-16."""

    line: int
    offset: int


class _Item(msgspec.Struct):
    start: _Point
    end: _Point
    text: str
    code: int = 0
    category: str = "error"


class _Reply(msgspec.Struct):
    success: bool = False
    message: str = ""
    body: list[_Item] = []


def question(kind: str, uri: str) -> Json:
    """The params of `workspace/executeCommand` for one of `QUESTIONS` about a file."""
    return {"command": COMMAND, "arguments": [kind, {"file": uri}]}


def diagnostics(reply: msgspec.Raw) -> list[msgspec.Raw] | None:
    """A reply as diagnostics of the language server protocol; None for one that is no answer."""
    try:
        read = msgspec.json.decode(reply, type=_Reply)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return (
        [msgspec.Raw(msgspec.json.encode(_translated(each))) for each in read.body] if read.success else None
    )


def _translated(item: _Item) -> Json:
    ends = {"start": item.start, "end": item.end}
    return {
        "range": {name: {"line": at.line - 1, "character": at.offset - 1} for name, at in ends.items()},
        "message": item.text,
        "severity": _SEVERITIES.get(item.category, 1),
        "code": item.code,
        "source": "typescript",
    }
