"""JSON of whatever an extension gives, in either dialect.

Owns what becomes of text that no UTF-8 can hold: names of files and contents of buffers may be of any bytes, which
Python keeps as lone surrogates. Pure.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar, cast

import msgspec

T = TypeVar("T")
_encode: Final = msgspec.json.Encoder().encode
_encode_anything: Final = msgspec.json.Encoder(enc_hook=str).encode


def encoded(value: Any, *, anything: bool = False) -> bytes:
    """A value as JSON. What has no such form raises `TypeError`, or with `anything` becomes its `str`."""
    encode = _encode_anything if anything else _encode
    try:
        return encode(value)
    except UnicodeEncodeError:
        return encode(printable(value))


def printable(value: T) -> T:
    """The same with U+FFFD for every character that is none, however deep it lies."""
    found: Any = value
    if isinstance(found, str):
        found = found.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    elif isinstance(found, dict):
        table = cast("dict[Any, Any]", found)
        found = {printable(key): printable(each) for key, each in table.items()}
    elif isinstance(found, list | tuple | set | frozenset):
        found = [printable(each) for each in cast("list[Any]", found)]
    elif isinstance(found, msgspec.Struct):
        fields = msgspec.structs.asdict(found)
        found = msgspec.structs.replace(found, **{name: printable(each) for name, each in fields.items()})
    return cast("T", found)
