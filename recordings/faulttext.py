"""Fault rules as people write them: one of the command line, or a list of tables of TOML; and back.

Owns the checks and what is said of mistakes. What a rule does is `faultrules`' business.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, cast, get_args

import msgspec

from recordings.errors import Code, RecordingError
from recordings.faultrules import DEEDS, STRIKES, TAKES, Deed, FaultRule, On, When

_WHOM = ("on", "peer", "method", "name", "lane", "at", "nth", "times", "probability")
_TEXTS = frozenset(("on", "peer", "method", "name", "lane", "code", "message", "when"))
_FLOATS = frozenset(("probability", "seconds"))
_CHOICES: Mapping[str, tuple[str, ...]] = {"code": get_args(Code), "when": get_args(When)}
_LEAST: Mapping[str, int] = {"at": 0, "keep": 0, "status": 0}
_MOST: Mapping[str, int] = {"status": 255, "bytes": 1 << 30}


class FaultRuleError(RecordingError):
    """Rules that cannot be used; `mistakes` has everything that is wrong with them, a sentence each."""

    code: Code = "invalid_request"

    def __init__(self, mistakes: Iterable[str]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(self.mistakes), details={"mistakes": list(self.mistakes)})


def rule_of(text: str) -> FaultRule:
    """A rule of the command line: a deed, and what it needs to know as `key=value`, quoted as in a shell.

    `error peer=db method=tools/call nth=3 code=timeout`. Raises `FaultRuleError`.
    """
    try:
        deed, *words = shlex.split(text)
    except ValueError:
        raise FaultRuleError((f"`{text}` is no rule: write a deed, as in `drop peer=db nth=2`",)) from None
    table: dict[str, Any] = {"deed": deed}
    mistakes: list[str] = []
    for word in words:
        key, sign, value = word.partition("=")
        if not sign:
            mistakes.append(f"`{word}` in `{text}` must be `key=value`")
        elif key in table:
            mistakes.append(f"`{key}` stands twice in `{text}`")
        else:
            table[key] = value if key in _TEXTS else _number(value)
    rule = None if mistakes else _rule(table, f"`{text}`: ", mistakes)
    if rule is None:
        raise FaultRuleError(mistakes)
    return rule


def rules_of(tables: object, *, file: str = "") -> tuple[FaultRule, ...]:
    """The rules of a list of tables, `[[fault]]` in TOML. Raises `FaultRuleError` with every mistake."""
    start = f"{file}: " if file else ""
    if not isinstance(tables, list):
        raise FaultRuleError((f"{start}`fault` must be a list of tables: write `[[fault]]`",))
    mistakes: list[str] = []
    rules: list[FaultRule] = []
    for number, table in enumerate(cast("list[object]", tables)):
        if not isinstance(table, dict):
            mistakes.append(f"{start}`fault[{number}]` must be a table")
            continue
        rule = _rule(cast("dict[str, Any]", table), f"{start}`fault[{number}]`: ", mistakes)
        if rule is not None:
            rules.append(rule)
    if mistakes:
        raise FaultRuleError(mistakes)
    return tuple(rules)


def text_of(rule: FaultRule) -> str:
    """The rule as `rule_of` reads it."""
    return " ".join(_words(rule))


def _words(rule: FaultRule) -> Iterator[str]:
    yield rule.deed
    given: dict[str, Any] = msgspec.to_builtins(rule)
    for key in (*_WHOM, *TAKES.get(rule.deed, {})):
        if key in given:
            yield shlex.quote(f"{key}={given[key]}")


def _number(text: str) -> object:
    """A number as it is written; other text as it is, for the checks to refuse."""
    try:
        found: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
    return found if isinstance(found, int | float) else text


def _rule(table: Mapping[str, Any], start: str, mistakes: list[str]) -> FaultRule | None:
    before = len(mistakes)
    deed = table.get("deed")
    if deed not in DEEDS:
        said = f"{deed!r} is no deed" if "deed" in table else "there is no `deed`"
        mistakes.append(f"{start}{said}{_hint(deed, DEEDS)}; deeds are {', '.join(DEEDS)}")
        return None
    for key, value in table.items():
        if key == "deed":
            continue
        fault = _fault(deed, key, value)
        if fault:
            mistakes.append(f"{start}`{key}` {fault}")
    if len(mistakes) > before:
        return None
    return msgspec.convert(table, FaultRule)


def _fault(deed: Deed, key: str, value: object) -> str:
    """What is wrong with one entry, as the end of a sentence; empty for nothing."""
    known = (*_WHOM, *TAKES.get(deed, {}))
    if key not in known:
        of_others = [other for other, takes in TAKES.items() if key in takes]
        return (
            f"says nothing of `{deed}`, but of {', '.join(of_others)}"
            if of_others
            else f"is not known in a rule{_hint(key, known)}"
        )
    if key in _TEXTS:
        return _text_fault(deed, key, value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "must be a number"
    if key == "probability":
        return "" if 0 < value <= 1 else "must be greater than 0, and 1 at most"
    if key == "seconds":
        return "" if 0 < value <= 3600 else "must be greater than 0, and 3600 at most"
    least, most = _LEAST.get(key, 1), _MOST.get(key, 2**63 - 1)
    if not isinstance(value, int):
        return "must be a whole number"
    return "" if least <= value <= most else f"must be from {least} to {most}"


def _text_fault(deed: Deed, key: str, value: object) -> str:
    if not isinstance(value, str):
        return "must be a text"
    choices = STRIKES[deed] if key == "on" else _CHOICES.get(key)
    if choices is None or value in choices:
        return ""
    if key == "on" and value in get_args(On):
        return f"cannot be `{value}`: `{deed}` strikes {', '.join(choices)}"
    return f"must be one of {', '.join(choices)}{_hint(value, choices)}"


def _hint(word: object, known: Iterable[str]) -> str:
    near = get_close_matches(str(word).lower(), list(known), n=1, cutoff=0.6)
    return f"; did you mean `{near[0]}`?" if near else ""
