"""The patterns by which a language server says what files it wants to hear of.

Owns the reading of the protocol's globs (`*`, `**`, `?`, `{a,b}`, `[a-z]`). Pure.
"""

from __future__ import annotations

import re

_TOKENS = re.compile(r"\*\*/|/\*\*$|\*\*|\*|\?|\{|\}|,|\[!?[^\]]+\]|[^*?{},\[]+|\[")


def pattern(glob: str) -> str:
    """A glob as a regular expression for a path relative to the root, with `/`, to be matched whole."""
    depth = 0
    parts: list[str] = []
    for token in _TOKENS.findall(glob.removeprefix("./")):
        match token:
            case "**/":
                parts.append("(?:.*/)?")
            case "/**":
                parts.append("(?:/.*)?")
            case "**":
                parts.append(".*")
            case "*":
                parts.append("[^/]*")
            case "?":
                parts.append("[^/]")
            case "{":
                depth += 1
                parts.append("(?:")
            case "}" if depth:
                depth -= 1
                parts.append(")")
            case "," if depth:
                parts.append("|")
            case _ if len(token) > 1 and token[0] == "[" and token[-1] == "]":
                inner = token[1:-1].replace("\\", "\\\\")
                parts.append(f"[^{inner[1:]}]" if inner[0] == "!" and len(inner) > 1 else f"[{inner}]")
            case _:
                parts.append(re.escape(token))
    return "".join(parts) + ")" * depth
