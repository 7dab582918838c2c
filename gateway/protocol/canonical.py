"""Canonical JSON and `params_hash`, the evidence that joins the recording and the audit log.

Owns the seeds' hashing rule, stated whole in the frames contract. Vectors are in `canonical_vectors.json`.
Runs off the hot path: a decode, a sort and a sha256 of the whole body.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Annotated, Any, cast

import msgspec

from recordings.late import Late

_encode = msgspec.json.Encoder(order="sorted").encode
_EXACT = 1 << 53
"""Whole numbers below are the same to every reader."""
_MOST_KEPT = 4096
"""Bytes of params whose hash is remembered, at most."""
_PARAMS_SIZE = len(b',"params":')
_FEW = 16
"""Members of an object that are looked at one by one; of more, all are read and written in less time."""
_QUOTE, _COMMA, _BRACE, _BACKSLASH = b'",}\\'
_ARGUMENTS = b'"arguments":{'
_LEVELS = 6
"""Levels of nesting in which other numbers are found while they are read; deeper, they are looked for afterwards. With
each level more, it takes twice as long to make the reader, once: this many take half a millisecond."""


class NotCanonicalError(ValueError):
    """A value that has no canonical form: a non-finite number, a key that stands twice, or no JSON at all."""


def canonical(value: Any) -> bytes:
    """Return the canonical JSON of a decoded value.

    UTF-8, no white space, keys by Unicode code point, arrays in order, doubles in shortest round-trip form,
    integers exact, no Unicode normalisation.

    Raises:
        NotCanonicalError: If a number is not finite (msgspec alone would write null), a string holds half of a
            surrogate pair, or the value nests too deep.
    """
    try:
        _check_finite(value)
        return _encode(value)
    except NotCanonicalError:
        raise
    except (UnicodeEncodeError, RecursionError) as fault:
        raise NotCanonicalError(str(fault)) from None


def parse(data: bytes) -> Any:
    """Return the decoded value of JSON text.

    Raises:
        NotCanonicalError: If the text is no JSON, repeats a key, or holds a number that no double can.
    """
    import json

    try:
        # Decoded here, since `json.loads` would take bytes for UTF-16 where they look like it.
        return json.loads(data.decode(), object_pairs_hook=_unique, parse_constant=_no_constant)
    except NotCanonicalError:
        raise
    except (ValueError, RecursionError) as fault:
        raise NotCanonicalError(str(fault)) from None


def params_hash(method: str, params: bytes) -> str:
    """Return the sha256 hex of the canonical JSON of `{"method": …, "params": …}`. Absent params are null.

    Raises:
        NotCanonicalError: If the params have no canonical form.
    """
    if len(params) > _MOST_KEPT:
        return _hash(method, params)
    return _kept_hash(method, params)


def _hash(method: str, params: bytes) -> str:
    written = _quick(params)
    if written is None:
        value = parse(params) if params else None
        written = canonical({"method": method, "params": value})
        return hashlib.sha256(written).hexdigest()
    return hashlib.sha256(b'{"method":%b,"params":%b}' % (_encode(method), written)).hexdigest()


_kept_hash = lru_cache(maxsize=1024)(_hash)
"""Agents ask the same again, and one call's params are asked about more than once."""


def _quick(params: bytes) -> bytes | None:
    """Return the canonical form of params as most are, in an eighth of the time; None for all others.

    Others are those with a key that stands twice, or perhaps so, with numbers that two readers may see differently,
    which are long whole ones, and what is no JSON.
    """
    if _BACKSLASH in params and params.find(b"\\u003") >= 0:
        return None
    size = len(params)
    try:
        try:
            value = _whole_reader.decode(params)
        except msgspec.ValidationError:
            value = _with_fractions(params)
            if value is None:
                return None
            size = -1
        written = _encode(value)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    # But for fractions nothing is written longer than it may come: what is as long has lost no member. Of two with one
    # name only the last is left, and its colon with it; to count takes as long as all the rest where there is much.
    if len(written) == size or written.count(b":") == params.count(b":"):
        return written
    return None


def hash_within(method: str, message: bytes, *, without: str) -> str | None:
    """As `params_hash` of the member `params` of a message, which is read once; None where only that may tell.

    Asked for a long message as most are: compact, each member there once, with no numbers but small whole ones, and an
    object of params `without` one of its members.
    """
    try:
        value = _simple(message)
        if value.__class__ is not dict:
            return None
        given = value.pop("params", None)
        if given.__class__ is not dict or without in given:
            return None
        params = _encode(given)
        rest = _encode(value)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    if len(message) != len(params) + len(rest) + (_PARAMS_SIZE if value else _PARAMS_SIZE - 1):
        return None
    return hashlib.sha256(b'{"method":%b,"params":%b}' % (_encode(method), params)).hexdigest()


def hash_of_call(name: str, arguments: msgspec.Raw, message: bytes) -> str | None:
    """As `params_hash` of a `tools/call` whose params hold these two and no more; None where only that may tell.

    Asked for long arguments that have been read as JSON in UTF-8, of a compact message: what is canonical in them as it
    stands is not read once more, nor copied.
    """
    parts: list[bytes | msgspec.Raw] | None = None
    if _BACKSLASH not in message:
        are_texts = _are_sorted_texts(message, len(arguments))
        parts = [arguments] if are_texts else _canonical_parts(arguments)
    if parts is None:
        written = _quick(bytes(arguments))
        if written is None:
            return None
        parts = [written]
    found = hashlib.sha256(b'{"method":"tools/call","params":{"arguments":')
    for part in parts:
        found.update(part)
    found.update(b',"name":%b}}' % _encode(name))
    return found.hexdigest()


def _are_sorted_texts(message: bytes, size: int) -> bool:
    """Whether the arguments in a message without a backslash, so many bytes, are few texts, compact and in order.

    Nothing but a quote ends a text then, and they are what is first called so: a name holds no quote.
    """
    start = message.find(_ARGUMENTS)
    if start < 0:
        return False
    at = start + len(_ARGUMENTS)
    end = at - 1 + size
    last = None
    for _ in range(_FEW):
        key_end = message.find(b'"', at + 1)
        key = message[at:key_end]
        if (
            key[:1] != b'"'
            or message[key_end + 1 : key_end + 3] != b':"'
            or (last is not None and key <= last)
        ):
            return False
        last = key
        value_end = message.find(b'"', key_end + 3)
        following = message[value_end + 1]
        if following != _COMMA:
            return following == _BRACE and value_end + 2 == end
        at = value_end + 2
    return False


def _canonical_parts(arguments: msgspec.Raw) -> list[bytes | msgspec.Raw] | None:
    """The canonical form of an object of few members without a backslash, in parts; None where this does not tell it.

    A text is canonical as it stands then, and an object is compact whose members take as many bytes as they do compact.
    """
    try:
        members = _read_members(arguments)
    except msgspec.DecodeError:
        return None
    if len(members) > _FEW:
        return None
    parts: list[bytes | msgspec.Raw] = []
    size = 1
    for key in sorted(members):
        raw = members[key]
        written = raw if memoryview(raw)[0] == _QUOTE else _quick(bytes(raw))
        if written is None:
            return None
        start = b'%b"%b":' % (b"," if parts else b"{", key.encode())
        parts += (start, written)
        size += len(start) + len(raw)
    parts.append(b"}")
    return parts if size == len(arguments) else None


def _simple(data: bytes) -> Any:
    """Return what JSON text says; None where there are other numbers in it than small whole ones.

    Raises `DecodeError` and `RecursionError` as every reading does.
    """
    try:
        return _whole_reader.decode(data)
    except msgspec.ValidationError:
        value = msgspec.json.decode(data)
        return value if _is_simple(value) else None


def _with_fractions(data: bytes) -> Any:
    """As `_simple`, with fractions: each is the nearest double to every reader. A long whole number is that to some."""
    try:
        return _reader.decode(data)
    except msgspec.ValidationError:
        return _simple(data)


def _simple_type(number: Any) -> Any:
    """The type of JSON with these numbers, so many levels deep: others are then found as they are read."""
    scalar = number | bool | str | None
    kind = scalar
    for _ in range(_LEVELS):
        kind = scalar | list[kind] | dict[str, kind]
    return kind


_WHOLE: Any = Annotated[int, msgspec.Meta(gt=-_EXACT, lt=_EXACT)]


_read_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_whole_reader = Late(lambda: msgspec.json.Decoder(_simple_type(_WHOLE)))
_reader = Late(lambda: msgspec.json.Decoder(_simple_type(_WHOLE | float)))


def _is_simple(value: Any) -> bool:
    """Whether there is no number in it but small whole ones."""
    items: Iterable[Any]
    if isinstance(value, str) or value is None:
        return True
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).values()
    elif isinstance(value, list):
        items = cast("list[Any]", value)
    else:
        return isinstance(value, int) and -_EXACT < value < _EXACT
    for item in items:  # noqa: SIM110 - a generator for `all` would cost as much again
        if item.__class__ is not str and not _is_simple(item):
            return False
    return True


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise NotCanonicalError("a key stands twice")
    return found


def _no_constant(text: str) -> Any:
    raise NotCanonicalError(f"{text} is not JSON")


def _check_finite(value: Any) -> None:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NotCanonicalError("a number is not finite")
    elif isinstance(value, dict):
        for item in value.values():  # pyright: ignore[reportUnknownVariableType]
            _check_finite(item)
    elif isinstance(value, list):
        for item in value:  # pyright: ignore[reportUnknownVariableType]
            _check_finite(item)
