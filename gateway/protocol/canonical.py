"""Canonical JSON and `params_hash`, the evidence that joins the recording and the audit log.

Owns the seeds' hashing rule, stated whole in the frames contract. Vectors are in `canonical_vectors.json`.
Runs off the hot path: a decode, a sort and a sha256 of the whole body.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

import msgspec

_encode = msgspec.json.Encoder(order="sorted").encode


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
    value = parse(params) if params else None
    return hashlib.sha256(canonical({"method": method, "params": value})).hexdigest()


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
