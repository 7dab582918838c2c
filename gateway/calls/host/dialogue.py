"""The words between the gateway's terminal and the person there: what is shown of a request, what a typed line means.

Owns that nothing an extension says acts on the terminal, and that no line is taken for an answer that is none. Reading
and writing is the shell's.
"""

from __future__ import annotations

from typing import Any, Final

from gateway.calls.accepted import visible
from gateway.calls.host_ui import Request

LONGEST_LINE: Final = 2_000
MOST_LINES: Final = 40
END: Final = "."
"""A line that ends a text of several."""
_YES: Final = frozenset(("y", "yes"))
_NO: Final = frozenset(("n", "no"))


def shown(asked: Request, who: str) -> list[str]:
    """Return the lines that a person sees of a request. `who` is the extension; empty where the gateway asks."""
    first = _text(asked.title or asked.kind)
    lines = [f"{visible(who)}: {first[0]}" if who else first[0], *first[1:]]
    if asked.message:
        lines += [f"  {line}" for line in _text(asked.message)]
    match asked.kind:
        case "select":
            width = len(str(len(asked.options)))
            lines += [f"  {at:>{width}}. {' '.join(_text(one))}" for at, one in enumerate(asked.options, 1)]
        case "input" if asked.placeholder:
            lines.append(f"  ({' '.join(_text(asked.placeholder))})")
        case "editor" if asked.prefill:
            lines += [f"  | {line}" for line in _text(asked.prefill)]
        case _:
            pass
    return lines


def told(asked: Request, who: str) -> list[str]:
    """Return the lines of a request that nobody answers."""
    text = asked.message or asked.title
    mark = {"warning": "warning: ", "error": "error: "}.get(asked.level, "") if asked.kind == "notify" else ""
    return [f"{visible(who)}: {mark}{line}" for line in _text(text)] if text else []


def hint(asked: Request) -> str:
    """Return what stands before the place where a person types."""
    match asked.kind:
        case "select":
            return f"1 to {len(asked.options)}, Ctrl-D for none: "
        case "confirm":
            return "y/n, Ctrl-D for neither: "
        case "editor":
            return f"Lines, then one with only `{END}` (at once: as it is); Ctrl-D for none:\n"
        case _:
            return "> "


class Reading:
    """What a person has typed so far for one request."""

    def __init__(self, asked: Request) -> None:
        self._asked = asked
        self._lines: list[str] = []

    def line(self, text: str) -> dict[str, Any] | str | None:
        """Take a line without its end: the output of `ui`, what is wrong with the line, or None for more to come."""
        match self._asked.kind:
            case "select":
                return self._choice(text.strip())
            case "confirm":
                word = text.strip().lower()
                if word in _YES or word in _NO:
                    return {"confirmed": word in _YES}
                return "Type y or n."
            case "editor":
                if text != END:
                    self._lines.append(text)
                    return None
                return {"value": "\n".join(self._lines) if self._lines else self._asked.prefill}
            case _:
                return {"value": text}

    def end(self) -> dict[str, Any]:
        """The person has typed Ctrl-D."""
        return {"cancelled": True}

    def _choice(self, text: str) -> dict[str, Any] | str:
        options = self._asked.options
        if text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= len(options):
            return {"value": options[int(text[:9]) - 1]}
        return f"Type a number from 1 to {len(options)}."


def _text(text: str) -> list[str]:
    """Return the lines of a text, none of which does anything to a terminal."""
    lines = text.splitlines() or [""]
    kept = [
        visible(line[:LONGEST_LINE]) + ("…" if len(line) > LONGEST_LINE else "")
        for line in lines[:MOST_LINES]
    ]
    return [*kept, f"… ({len(lines) - MOST_LINES} lines more)"] if len(lines) > MOST_LINES else kept
