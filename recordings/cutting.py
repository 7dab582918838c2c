"""Cutting secrets out of bytes that the redactor suspects: what is found is replaced, every other byte stays as it was.

Owns where in a text or in JSON a secret begins and ends: next to a telling name, in a string, in JSON inside of one. A
redacted body stays valid JSON, strings stay strings and numbers numbers. Loaded once there is something to cut.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from recordings.late import late
from recordings.linear import Match, Pattern, compiled_late
from recordings.marks import MARK, Span, is_marked, spliced, spliced_between
from recordings.names import SAID_OPENLY, SCHEMA_WORDS, Names
from recordings.patterns import SHAPES, SHORTEST_KNOWN, Shape, flag, in_text, value_of
from recordings.tokens import (
    A_SCALAR,
    A_STRING,
    COLON,
    NUMBER,
    SCALAR,
    STRING,
    TOKEN,
    container_end,
    is_json,
    member_names,
    scalar_around,
    string_around,
    text_of,
)

if TYPE_CHECKING:
    from recordings.redaction import Redactor

_DEEPEST = 8
"""JSON inside strings inside JSON is followed so far down; further in, its text is searched."""
_COMMA = late(rb'\s*,\s*(?=")')
_NAMING = late(rb'"(?:name|key|header|field|variable)"\s*:$')
_VALUE_AFTER = late(rb'\s*,\s*"value"\s*:\s*')
_VALUE_BEFORE = late(rb'"value"\s*:\s*(' + A_STRING + rb"|" + A_SCALAR + rb')\s*,\s*"[a-z]+"\s*:$', re.DOTALL)
_SCHEMA_VALUE = late(rb'"(?:default|examples?|value)"\s*:\s*')
_DIGIT = late(rb"[0-9]")
_MARK = MARK.decode()
_string = msgspec.json.Decoder(str)


class Cutter:
    """Takes out what a redactor is to take out."""

    def __init__(
        self,
        redactor: Redactor,
        names: Names,
        own: Sequence[Pattern],
        own_match: Callable[[bytes], object],
    ) -> None:
        """`own` are the patterns of a project, and `own_match` tells whether one of them may match."""
        self._redactor = redactor
        self._names = names
        self._own = own
        self._own_match = own_match
        self._shapes = [(shape, compiled_late(shape.pattern)) for shape in SHAPES]
        self._in_text = compiled_late(in_text(names.stems))
        self._flag = compiled_late(flag(names.stems))

    def text(self, data: bytes, depth: int) -> bytes:
        """Text without its secrets; `depth` is how many strings of JSON it lies in."""
        while self._redactor.suspects(data):
            redacted = self._once(data, depth)
            # A mark is an edge: next to it begins what was inside of a word before.
            if redacted == data:
                return redacted
            data = redacted
        return data

    def _once(self, data: bytes, depth: int) -> bytes:
        if depth < _DEEPEST and data.lstrip()[:1] in (b"{", b"[") and is_json(data):
            return self.json(data, depth + 1)
        literal = self._redactor.sought.literal
        if literal is not None:
            data = spliced(data, literal, self._known_span)
        for shape, pattern in self._shapes:
            data = spliced(data, pattern, lambda match, shape=shape: self._shape_span(match, shape))
        for pattern in self._own:
            data = spliced_between(data, pattern, lambda match, p=pattern: self._own_span(match, p))
        data = spliced(data, self._flag, self._flag_span)
        return spliced(data, self._in_text, self._named_span)

    def _known_span(self, match: Match) -> Span | None:
        start, end = match.span(1)
        form = match.group(1)
        sought = self._redactor.sought
        plain = sought.known.get(form)
        if plain is None:
            plain = next(plain for pattern, plain in sought.loose.values() if pattern.search(form))
        return start, end, self._redactor.mark("known", plain)

    def _shape_span(self, match: Match, shape: Shape) -> Span | None:
        start, end = match.span(1)
        secret: bytes = match.group(1)
        if shape.digit and not _DIGIT.search(secret):
            return None
        return start, end, self._redactor.mark(shape.label, secret)

    def _own_span(self, match: Match, pattern: Pattern) -> Span | None:
        start, end = match.span(1 if pattern.groups else 0)
        if start < 0:
            start, end = match.span()
        secret = match.group()[start - match.start() : end - match.start()]
        return (start, end, self._redactor.mark("custom", secret)) if secret else None

    def _flag_span(self, match: Match) -> Span | None:
        start, end, value, _quoted = value_of(match)
        if value.startswith(b"-") or not self._is_secret(match.group(1).decode("latin-1")):
            return None
        return start, end, self._redactor.mark("named", value)

    def _named_span(self, match: Match) -> Span | None:
        name: bytes = match.group(1)
        joint: bytes = match.group(2)
        start, end, value, quoted = value_of(match)
        if not self._is_secret(name.decode("latin-1")) or not self._told(name, joint, value, quoted=quoted):
            return None
        return start, end, self._redactor.mark("named", value)

    def _told(self, name: bytes, joint: bytes, value: bytes, *, quoted: bool) -> bool:
        """Whether what stands after a telling name in a text is a secret, and not code or prose about one."""
        if not value or value.lower().decode("latin-1") in SAID_OPENLY:
            return False
        if joint.lstrip(b"\\")[:1] in (b'"', b"'"):
            return quoted
        if quoted:
            return len(value) >= 4 and not re.search(rb"\s", value)
        if joint == b"=":
            return len(value) >= 6 and not self._is_secret(value.decode("latin-1"))
        return len(value) >= 6 and _DIGIT.search(value) is not None and name != value

    def _is_secret(self, name: str) -> bool:
        # A name that holds a mark was judged when it was whole.
        return _MARK not in name and self._names.is_secret(name)

    def _announces(self, text: str) -> bool:
        return _MARK not in text and self._names.announces(text)

    # JSON

    def json(self, data: bytes, depth: int) -> bytes:
        """Valid JSON with its secrets replaced; costs by the number of matches, not by its length.

        Where a pattern of the project may match, every string and number is looked at besides.
        """
        redacted = self._named_or_shaped(data, depth)
        return self._each_value(redacted, depth) if self._own_match(redacted) else redacted

    def _each_value(self, data: bytes, depth: int) -> bytes:
        out: list[bytes] = []
        end = 0
        for match in TOKEN.finditer(data):
            token = match.group()
            out.append(data[end : match.start()])
            end = match.end()
            if token[:1] == b'"':
                token = self._string(token, depth, secret=False)
            elif token not in b"{}[]:,":
                token = self._scalar(token, secret=False)
            out.append(token)
        new = b"".join((*out, data[end:]))
        return data if new == data else new

    def _named_or_shaped(self, data: bytes, depth: int) -> bytes:
        out: list[bytes] = []
        copied = at = 0
        anywhere = self._redactor.sought.anywhere
        assert anywhere is not None
        while (match := anywhere.search(data, at)) is not None:
            for start, end, new in self._near(data, at, match.start() + 1, depth):
                if start >= copied and new != data[start:end]:
                    out += (data[copied:start], new)
                    copied = end
                at = max(at, end)
            at = max(at, match.start() + 1)
        if not out:
            return data
        out.append(data[copied:])
        return b"".join(out)

    def _near(self, data: bytes, outside: int, place: int, depth: int) -> list[Span]:
        """What is to be put for the tokens that a match at `place` concerns, in order; unchanged ones too.

        `outside` is an earlier place that is known to be in no string.
        """
        token = string_around(data, outside, place)
        if token is None:
            scalar = scalar_around(data, place - 1)
            return [] if scalar is None else [(*scalar, self._scalar(data[slice(*scalar)], secret=False))]
        start, end = token
        spans = [(start, end, self._string(data[start:end], depth, secret=False))]
        colon = COLON.match(data, end)
        if colon is not None:
            if self._is_secret(text_of(data[start:end])):
                spans.append(self._value(data, colon.end(), depth))
            return spans
        other = self._beside(data, start, end)
        if other is not None:
            spans.append(self._value(data, other, depth))
        return sorted(spans)

    def _beside(self, data: bytes, start: int, end: int) -> int | None:
        """Where the secret begins that a string announces: the next of a list, or the `value` to its name."""
        if end - start > 80:
            return None
        text = text_of(data[start:end])
        before = data[max(0, start - 4096) : start].rstrip()
        if before[-1:] in (b"[", b","):
            comma = _COMMA.match(data, end)
            return comma.end() if comma is not None and self._announces(text) else None
        if not self._is_secret(text) or _NAMING.search(before) is None:
            return None
        after = _VALUE_AFTER.match(data, end)
        if after is not None:
            return after.end()
        earlier = _VALUE_BEFORE.search(before)
        return None if earlier is None else max(0, start - 4096) + earlier.start(1)

    def _value(self, data: bytes, start: int, depth: int) -> Span:
        """The secret value that begins at `start`."""
        first = data[start : start + 1]
        if first == b'"':
            string = STRING.match(data, start)
            assert string is not None
            return start, string.end(), self._string(string.group(), depth, secret=True)
        if first in (b"{", b"["):
            return self._container(data, start, depth)
        scalar = SCALAR.match(data, start)
        assert scalar is not None
        return start, scalar.end(), self._scalar(scalar.group(), secret=True)

    def _container(self, data: bytes, start: int, depth: int) -> Span:
        """A list or object under a telling name: all strings and numbers in it, unless it is a schema."""
        members = member_names(data, start)
        if members is not None and {name for name in members if _MARK not in name} <= SCHEMA_WORDS:
            return self._schema(data, start, depth)
        out: list[bytes] = []
        level = 0
        end = start
        for match in TOKEN.finditer(data, start):
            token = match.group()
            first = token[:1]
            out.append(data[end : match.start()])
            end = match.end()
            if first == b'"':
                is_name = COLON.match(data, end) is not None
                token = self._string(token, depth, secret=not is_name)
            elif first in b"{[":
                level += 1
            elif first in b"}]":
                level -= 1
            elif first not in b":,":
                token = self._scalar(token, secret=True)
            out.append(token)
            if not level:
                break
        return start, end, b"".join(out)

    def _schema(self, data: bytes, start: int, depth: int) -> Span:
        """The schema of a secret is none itself, but for the values that it gives as examples."""
        end = container_end(data, start)
        out: list[bytes] = []
        copied = start
        for match in _SCHEMA_VALUE.finditer(data, start, end):
            if match.start() >= copied:
                value_start, value_end, new = self._value(data, match.end(), depth)
                out += (data[copied:value_start], new)
                copied = value_end
        out.append(data[copied:end])
        return start, end, b"".join(out)

    def _string(self, token: bytes, depth: int, *, secret: bool) -> bytes:
        """A JSON string token without its secrets; all of it is one where `secret`."""
        if not secret and (
            (len(token) < SHORTEST_KNOWN + 2 and not self._own) or not self._redactor.finds(token)
        ):
            return token
        text = _string.decode(token).encode("utf-8", "surrogatepass")
        if secret and text.lower().decode("latin-1") not in SAID_OPENLY and not is_marked(text):
            return b'"' + self._redactor.mark("named", text) + b'"'
        redacted = self.text(text, depth)
        return token if redacted is text else msgspec.json.encode(redacted.decode("utf-8", "surrogatepass"))

    def _scalar(self, token: bytes, *, secret: bool) -> bytes:
        """A number, true, false or null; a number that is a secret becomes 0."""
        if not NUMBER.match(token) or token == b"0":
            return token
        if secret or self._is_known(token):
            self._redactor.counts["number"] += 1
            return b"0"
        return token

    def _is_known(self, number: bytes) -> bool:
        literal = self._redactor.sought.literal
        if literal is not None and literal.search(number):
            return True
        return any(match.group() for pattern in self._own for match in pattern.finditer(number))
