"""Taking secrets out of bodies before anything else sees them, by name, by shape and by exact value.

Owns the redactor: a prefilter over raw bytes that costs a few microseconds a KiB, and the splicing of what it
finds. What counts as a name is `names`' business, what secrets look like is `patterns`'. A redacted body
stays valid JSON, strings stay strings and numbers numbers, and every other byte stays as it was.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import msgspec

from recordings.frame import NO_BODY, Frame
from recordings.linear import Match, Pattern, any_of, compiled, escaped
from recordings.names import is_secret, set_of
from recordings.patterns import (
    FLAG,
    HARMLESS,
    IN_TEXT,
    MARK,
    PREFILTER,
    SHAPES,
    SHORTEST_KNOWN,
    Shape,
    escaped_form,
    forms_of,
)
from recordings.tokens import (
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

_Span: TypeAlias = tuple[int, int, bytes]

_DEEPEST = 8
"""JSON inside strings inside JSON is followed so far down; further in, its text is searched."""
_COMMA = re.compile(rb'\s*,\s*(?=")')
_NAMING = re.compile(rb'"(?:name|key|header|field|variable)"\s*:$')
_VALUE_AFTER = re.compile(rb'\s*,\s*"value"\s*:\s*')
_VALUE_BEFORE = re.compile(
    rb'"value"\s*:\s*(' + STRING.pattern + rb"|" + SCALAR.pattern + rb')\s*,\s*"[a-z]+"\s*:$', re.DOTALL
)
_SCHEMA_VALUE = re.compile(rb'"(?:default|examples?|value)"\s*:\s*')
_MARKED = re.compile(rb"\[REDACTED:[a-z]+:[0-9a-f]{8}\]")
_PUBLIC = b"[REDACTED]"
_DIGIT = re.compile(rb"[0-9]")
_SCHEMA_WORDS = set_of(
    "type description title default example examples enum const format pattern minLength maxLength "
    "minimum maximum items properties required additionalProperties nullable deprecated readOnly "
    "writeOnly anyOf oneOf allOf not $ref $comment minItems maxItems uniqueItems exclusiveMinimum "
    "exclusiveMaximum multipleOf if then else patternProperties propertyNames $defs definitions "
    "contentEncoding contentMediaType enumNames"
)
_HEADERS = frozenset(
    ("authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "x-auth-token", "api-key")
)
_SAID_OPENLY = frozenset(("", "none", "null", "true", "false", "include", "omit", "same-origin", "required"))

_string = msgspec.json.Decoder(str)


class Redactor:
    """Redacts under one project's key, so that equal secrets stay recognisable as equal and unguessable.

    `known` are secrets that the gateway itself handles; those shorter than six characters are not looked for.
    Redacting twice is redacting once.
    """

    def __init__(self, key: bytes, *, known: Iterable[str] = ()) -> None:
        self._key = key
        self._known: dict[bytes, bytes] = {}
        self._loose: dict[bytes, tuple[Pattern, bytes]] = {}
        self.counts: Counter[str] = Counter()
        """How often each class was found; never a value."""
        self.know(known)

    def know(self, secrets: Iterable[str]) -> None:
        """Look for these values too, in every form, from now on."""
        for secret in secrets:
            if len(secret) >= SHORTEST_KNOWN:
                plain = secret.encode("utf-8", "surrogatepass")
                self._known.update(dict.fromkeys(forms_of(secret), plain))
                loose = escaped_form(secret)
                if loose is not None:
                    self._loose[loose] = (compiled(loose), plain)
        self._shapes = [(shape, compiled(shape.pattern)) for shape in SHAPES]
        self._in_text = compiled(IN_TEXT)
        self._flag = compiled(FLAG)
        # Longest first: a form that contains another one is to be taken whole.
        literals = sorted(self._known, key=len, reverse=True)
        pattern = b"|".join([*self._loose, *(escaped(literal) for literal in literals)])
        self._literal = compiled(b"(" + pattern + b")") if literals else None
        every = (*(shape.pattern for shape in SHAPES), *PREFILTER, *([pattern] if literals else []))
        self._anywhere = compiled(b"|".join(b"(?:" + each + b")" for each in every))
        self._match = any_of(every)

    # Whole things

    def suspects(self, data: bytes) -> bool:
        """Whether these bytes may hold a secret. Never false for bytes that would be changed."""
        if not self._match(data):
            return False
        for name in HARMLESS:
            if name in data:
                data = data.replace(name, b"")
        return bool(self._match(data))

    def body(self, data: bytes) -> bytes:
        """A JSON body without its secrets: the same object where there are none."""
        return self._splice(data, 0) if self.suspects(data) else data

    def text(self, text: str) -> str:
        """A text that is no JSON, such as an error message or a line of stderr, without its secrets."""
        data = text.encode("utf-8", "surrogatepass")
        redacted = self.raw(data)
        return text if redacted is data else redacted.decode("utf-8", "surrogatepass")

    def raw(self, data: bytes) -> bytes:
        """Bytes of any kind without their secrets: the same object where there are none."""
        return self._text(data, 0)

    def frame(self, frame: Frame) -> Frame:
        """The frame without secrets in its body, its ids and names and `x`; flagged where there were any."""
        changes: dict[str, Any] = {}
        body = bytes(frame.body)
        if body:
            redacted = self.raw(body) if frame.kind == "raw" else self.body(body)
            if redacted is not body:
                changes["body"] = msgspec.Raw(redacted) if redacted else NO_BODY
        for name in ("peer", "lane", "id", "method", "name"):
            value: object = getattr(frame, name)
            if isinstance(value, str):
                told = self.text(value)
                if told is not value:
                    changes[name] = told
        if frame.x:
            facts = msgspec.json.encode(frame.x)
            redacted = self.body(facts)
            if redacted is not facts:
                changes["x"] = msgspec.json.decode(redacted)
        if not changes:
            return frame
        if "redacted" not in frame.flags:
            changes["flags"] = (*frame.flags, "redacted")
        return msgspec.structs.replace(frame, **changes)

    def mark(self, label: str, secret: bytes) -> bytes:
        """What is stored in a secret's place."""
        self.counts[label] += 1
        tail = hmac.new(self._key, secret, hashlib.sha256).hexdigest()[:8]
        return f"{MARK}{label}:{tail}]".encode()

    # Text

    def _text(self, data: bytes, depth: int) -> bytes:
        if not self.suspects(data):
            return data
        if depth < _DEEPEST and data.lstrip()[:1] in (b"{", b"[") and is_json(data):
            return self._splice(data, depth + 1)
        if self._literal is not None:
            data = _spliced(data, self._literal, self._known_span)
        for shape, pattern in self._shapes:
            data = _spliced(data, pattern, lambda match, shape=shape: self._shape_span(match, shape))
        data = _spliced(data, self._flag, self._flag_span)
        return _spliced(data, self._in_text, self._named_span)

    def _known_span(self, match: Match) -> _Span | None:
        start, end = match.span(1)
        form = match.group(1)
        plain = self._known.get(form)
        if plain is None:
            plain = next(plain for pattern, plain in self._loose.values() if pattern.search(form))
        return start, end, self.mark("known", plain)

    def _shape_span(self, match: Match, shape: Shape) -> _Span | None:
        start, end = match.span(1)
        secret: bytes = match.group(1)
        if shape.digit and not _DIGIT.search(secret):
            return None
        return start, end, self.mark(shape.label, secret)

    def _flag_span(self, match: Match) -> _Span | None:
        start, end, value, _quoted = _value_of(match)
        if value.startswith(b"-") or not is_secret(match.group(1).decode("latin-1")):
            return None
        return start, end, self.mark("named", value)

    def _named_span(self, match: Match) -> _Span | None:
        name: bytes = match.group(1)
        joint: bytes = match.group(2)
        start, end, value, quoted = _value_of(match)
        if not is_secret(name.decode("latin-1")) or not _told_in_text(name, joint, value, quoted=quoted):
            return None
        return start, end, self.mark("named", value)

    # JSON

    def _splice(self, data: bytes, depth: int) -> bytes:
        """Valid JSON with its secrets replaced; costs by the number of matches, not by its length."""
        out: list[bytes] = []
        copied = at = 0
        while (match := self._anywhere.search(data, at)) is not None:
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

    def _near(self, data: bytes, outside: int, place: int, depth: int) -> list[_Span]:
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
            if is_secret(text_of(data[start:end])):
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
            return comma.end() if comma is not None and _announces(text) else None
        if not is_secret(text) or _NAMING.search(before) is None:
            return None
        after = _VALUE_AFTER.match(data, end)
        if after is not None:
            return after.end()
        earlier = _VALUE_BEFORE.search(before)
        return None if earlier is None else max(0, start - 4096) + earlier.start(1)

    def _value(self, data: bytes, start: int, depth: int) -> _Span:
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

    def _container(self, data: bytes, start: int, depth: int) -> _Span:
        """A list or object under a telling name: all strings and numbers in it, unless it is a schema."""
        members = member_names(data, start)
        if members is not None and members <= _SCHEMA_WORDS:
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

    def _schema(self, data: bytes, start: int, depth: int) -> _Span:
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
        if not secret and (len(token) < SHORTEST_KNOWN + 2 or not self._match(token)):
            return token
        text = _string.decode(token).encode("utf-8", "surrogatepass")
        if secret and text.lower().decode("latin-1") not in _SAID_OPENLY and not _is_marked(text):
            return b'"' + self.mark("named", text) + b'"'
        redacted = self._text(text, depth)
        return token if redacted is text else msgspec.json.encode(redacted.decode("utf-8", "surrogatepass"))

    def _scalar(self, token: bytes, *, secret: bool) -> bytes:
        """A number, true, false or null; a number that is a secret becomes 0."""
        if not NUMBER.match(token) or token == b"0":
            return token
        if secret or (self._literal is not None and self._literal.search(token)):
            self.counts["number"] += 1
            return b"0"
        return token


def _announces(text: str) -> bool:
    """Whether an element of a list says that the next one is a secret: an option, or a header's name."""
    return text.lower() in _HEADERS or (text.startswith("-") and "=" not in text and is_secret(text))


def _value_of(match: Match) -> tuple[int, int, bytes, bool]:
    """Where the value of a name in a text lies without its quote, the value, and whether it had one."""
    start, end = match.span(3)
    value: bytes = match.group(3)
    bare = value.lstrip(b"\\")
    if bare[:1] in (b'"', b"'"):
        lead = len(value) - len(bare) + 1
        return start + lead, end, value[lead:], True
    return start, end, value, False


def _told_in_text(name: bytes, joint: bytes, value: bytes, *, quoted: bool) -> bool:
    """Whether what stands after a telling name in a text is a secret, and not code or prose about one."""
    if not value or value.lower().decode("latin-1") in _SAID_OPENLY:
        return False
    if joint.lstrip(b"\\")[:1] in (b'"', b"'"):
        return quoted
    if quoted:
        return len(value) >= 4 and not re.search(rb"\s", value)
    if joint == b"=":
        return len(value) >= 6 and not is_secret(value.decode("latin-1"))
    return len(value) >= 6 and _DIGIT.search(value) is not None and name != value


def unmarked(data: bytes) -> bytes:
    """Redacted bytes without the tails by which equal secrets are recognised: for what is made public."""
    return _MARKED.sub(_PUBLIC, data)


def _is_marked(text: bytes) -> bool:
    return _MARKED.fullmatch(text) is not None or text == _PUBLIC


def _spliced(data: bytes, pattern: Pattern, span_of: Callable[[Match], _Span | None]) -> bytes:
    """Data with each match's secret replaced; what an earlier pattern put there is left alone."""
    kept = [match.span() for match in _MARKED.finditer(data)] if MARK.encode() in data else []
    out: list[bytes] = []
    copied = 0
    for match in pattern.finditer(data):
        span = None if _overlaps(match.span(), kept) else span_of(match)
        if span is not None:
            start, end, new = span
            out += (data[copied:start], new)
            copied = end
    if not out:
        return data
    out.append(data[copied:])
    return b"".join(out)


def _overlaps(span: tuple[int, int], kept: list[tuple[int, int]]) -> bool:
    place = bisect_left(kept, (span[0], 0))
    return (place < len(kept) and kept[place][0] < span[1]) or (place > 0 and kept[place - 1][1] > span[0])
