"""TOML as most files have it, read by lines: tables, and keys with a text, a number, a flag or a list of texts.

Owns what is that plain. Whatever else stands in a file is for `tomllib`, which takes a fortieth of a start to load and
alone says what is wrong; a test holds both equal. Pure.
"""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec

_LONGEST_NUMBER: Final = 18
_texts = msgspec.json.Decoder(list[str])


class _OtherError(Exception):
    """Something that is not plain."""


def plain_toml(text: str) -> dict[str, Any] | None:
    """Return what `tomllib.loads` does; None where that has to be asked."""
    if not text.replace("\n", "").replace("\t", "").isprintable():
        return None
    root: dict[str, Any] = {}
    table, named = root, set[str]()
    try:
        for line in text.split("\n"):
            line = line.strip(" \t")
            if not line or line[0] == "#":
                continue
            if line[0] == "[":
                if line[-1] != "]" or line in named:
                    return None
                named.add(line)
                table = _table(root, line[1:-1])
                continue
            key, _, value = line.partition("=")
            key = key.rstrip(" \t")
            if key in table or not _is_bare(key):
                return None
            table[key] = _value(value.lstrip(" \t"))
    except _OtherError:
        return None
    return root


def _table(root: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the table of a header, made with those that it is in."""
    table = root
    for part in name.split("."):
        if not _is_bare(part):
            raise _OtherError
        inner: Any = table.setdefault(part, {})
        if not isinstance(inner, dict):
            raise _OtherError
        table = cast("dict[str, Any]", inner)
    return table


def _is_bare(key: str) -> bool:
    return key.isascii() and key.replace("-", "").replace("_", "").isalnum()


def _value(value: str) -> object:
    if value[:1] == "[":
        if "\\" in value:
            raise _OtherError
        try:
            # Without an escape in it, a list of texts that is JSON is the same in TOML.
            return _texts.decode(value)
        except msgspec.DecodeError:
            raise _OtherError from None
    if value[:1] == '"':
        text, end, after = value[1:].partition('"')
        after = after.lstrip(" \t")
        if not end or "\\" in text or (after and after[0] != "#"):
            raise _OtherError
        return text
    word = value.partition("#")[0].rstrip(" \t")
    if word in ("true", "false"):
        return word == "true"
    whole, point, part = word.removeprefix("-").partition(".")
    if not _are_digits(whole) or (whole[0] == "0" != whole) or (point and not _are_digits(part)):
        raise _OtherError
    return float(word) if point else int(word)


def _are_digits(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) <= _LONGEST_NUMBER
