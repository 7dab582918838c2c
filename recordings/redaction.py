"""Taking secrets out of bodies before anything else sees them, by name, by shape and by exact value.

Owns the redactor: a prefilter over raw bytes that costs a few microseconds a KiB, and the splicing of what it
finds. What counts as a name is `names`' business, what secrets look like is `patterns`'. A redacted body
stays valid JSON, strings stay strings and numbers numbers, and every other byte stays as it was.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Any

import msgspec

from recordings.frame import NO_BODY, Frame
from recordings.glance import Glances, Look
from recordings.late import late
from recordings.linear import Match, Pattern, any_of, compiled, compiled_late, escaped
from recordings.marks import MARK, Span, is_marked, mark_of, spliced, spliced_between, unmarked
from recordings.names import SAID_OPENLY, SCHEMA_WORDS, Names
from recordings.patterns import (
    HARMLESS,
    SHAPES,
    SHORTEST_KNOWN,
    Shape,
    escaped_form,
    flag,
    forms_of,
    in_text,
    prefilter,
    value_of,
)
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

__all__ = ["Redactor", "unmarked"]

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


def _nothing(data: bytes) -> None:
    """What a look for no pattern finds."""
    del data


class Redactor:
    """Redacts under one project's key, so that equal secrets stay recognisable as equal and unguessable.

    `known` are secrets that the gateway itself handles; those shorter than six characters are not looked for.
    Redacting twice is redacting once.
    """

    _glances = False

    def __init__(
        self,
        key: bytes,
        *,
        known: Iterable[str] = (),
        keys: Iterable[str] = (),
        patterns: Iterable[str] = (),
        allow_keys: Iterable[str] = (),
    ) -> None:
        """Take the rules of a project besides the built-in ones: names, patterns of values, harmless names.

        The first group of a pattern is the secret, or all of it where it has none; `patterns.pattern_fault` says
        which can be used.
        """
        self._key = key
        self._names = Names(keys, allow_keys)
        self._known: dict[bytes, bytes] = {}
        self._loose: dict[bytes, tuple[Pattern, bytes]] = {}
        self._shapes = [(shape, compiled_late(shape.pattern)) for shape in SHAPES]
        own = [pattern.encode() for pattern in patterns]
        self._own = [compiled(pattern) for pattern in own]
        # What is escaped in a string may match only once it is not.
        self._own_sources = (*own, rb"\\") if own else ()
        self._own_match = any_of(self._own_sources) if own else _nothing
        self._in_text = compiled_late(in_text(self._names.stems))
        self._flag = compiled_late(flag(self._names.stems))
        self._prefilter = prefilter(self._names.stems)
        self._set_aside = cache(self._harmless)
        self.counts: Counter[str] = Counter()
        """How often each class was found; never a value."""
        self.generation = 0
        """Changes whenever there is more that is a secret."""
        self._quickened = -1
        self.know(known)

    def know(self, secrets: Iterable[str]) -> None:
        """Look for these values too, in every form, from now on."""
        # In copies: a thread may be looking for what is known so far.
        known, loose_forms = dict(self._known), dict(self._loose)
        for secret in secrets:
            if len(secret) >= SHORTEST_KNOWN:
                plain = secret.encode("utf-8", "surrogatepass")
                known.update(dict.fromkeys(forms_of(secret), plain))
                loose = escaped_form(secret)
                if loose is not None:
                    loose_forms[loose] = (compiled_late(loose), plain)
        self._known, self._loose = known, loose_forms
        # Longest first: a form that contains another one is to be taken whole.
        literals = sorted(self._known, key=len, reverse=True)
        pattern = b"|".join([*self._loose, *(escaped(literal) for literal in literals)])
        self._literal = compiled_late(b"(" + pattern + b")") if literals else None
        telling = (*(shape.pattern for shape in SHAPES), *self._prefilter)
        sure = (*([pattern] if literals else []), *self._own_sources)
        # A project's own patterns may begin anywhere, so they are looked for in each string by itself.
        near = (*telling, *([pattern] if literals else []))
        self._anywhere = compiled_late(b"|".join(b"(?:" + each + b")" for each in near))
        look = partial(any_of, (*telling, *sure))
        # Rules of a project's own may match without any of the words that a glance is for.
        glances = self._glances and not self._own and not loose_forms and self._names.is_built_in
        self._every: Look = Glances(look, known) if glances else look()
        self.hints = self._every
        """Whether bytes have to be looked at more closely, by `suspects`: the patterns that match, or nothing."""
        self._sure = frozenset(range(len(telling), len(telling) + len(sure)))
        self._scanned = near
        self.generation += 1

    def settle(self) -> None:
        """Have at hand what glances are in the place of. May be called in a thread."""
        if isinstance(self._every, Glances):
            self._every.settle()

    def look_closely(self) -> None:
        """Be done with glances, for good. For who may call `know`: in a thread it could undo that."""
        self._glances = False
        every = self._every
        if isinstance(every, Glances):
            self._every = every.settle()
            if self.hints is every:
                self.hints = self._every

    def quicken(self, compiled: Callable[[Sequence[bytes]], bytes | None] | None = None) -> None:
        """Have `hints` look at what holds no secret, as most does, in a fraction of the time; they stay the same.

        Takes time and memory, so for those who look at much; `compiled` is as `scanner` has it. Lasts until there is
        more that is a secret. May be called in a thread; where it cannot be done, nothing happens.
        """
        generation = self.generation
        if self._quickened == generation:
            return
        self._quickened = generation
        from recordings.scanner import halt, scanner

        scan = scanner(self._scanned, compiled)
        if scan is None:
            return
        own = self._own_match if self._own else None
        turns = [None]
        """Taken and given back in one step each, whichever thread does."""

        def hints(data: bytes) -> list[int] | None:
            # Asked each time: what was made in a thread may be out of date when it comes.
            if generation == self.generation:
                try:
                    turn = turns.pop()  # or an IndexError, where another thread is looking
                    try:
                        scan(data, halt)
                    finally:
                        turns.append(turn)
                except Exception:  # noqa: BLE001 - a match, or it could not look
                    return self._every(data)
                if own is None or not own(data):
                    return None
            return self._every(data)

        self.hints = hints

    # Whole things

    def suspects(self, data: bytes) -> bool:
        """Whether these bytes may hold a secret. Never false for bytes that would be changed."""
        # For itself, since `self.hints(…)` looks for a method first.
        hints = self.hints
        found = hints(data)
        if not found:
            return False
        if not self._sure.isdisjoint(found):
            return True
        for name in self._set_aside():
            if name in data:
                data = data.replace(name, b"")
        return bool(hints(data))

    def _harmless(self) -> tuple[bytes, ...]:
        return tuple(name for name in HARMLESS if not self._names.is_secret(name.decode()))

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
        import hmac

        self.counts[label] += 1
        tail = hmac.digest(self._key, secret, "sha256").hex()[:8]
        return mark_of(label, tail)

    # Text

    def _text(self, data: bytes, depth: int) -> bytes:
        while self.suspects(data):
            redacted = self._once(data, depth)
            # A mark is an edge: next to it begins what was inside of a word before.
            if redacted == data:
                return redacted
            data = redacted
        return data

    def _once(self, data: bytes, depth: int) -> bytes:
        if depth < _DEEPEST and data.lstrip()[:1] in (b"{", b"[") and is_json(data):
            return self._splice(data, depth + 1)
        if self._literal is not None:
            data = spliced(data, self._literal, self._known_span)
        for shape, pattern in self._shapes:
            data = spliced(data, pattern, lambda match, shape=shape: self._shape_span(match, shape))
        for pattern in self._own:
            data = spliced_between(data, pattern, lambda match, p=pattern: self._own_span(match, p))
        data = spliced(data, self._flag, self._flag_span)
        return spliced(data, self._in_text, self._named_span)

    def _known_span(self, match: Match) -> Span | None:
        start, end = match.span(1)
        form = match.group(1)
        plain = self._known.get(form)
        if plain is None:
            plain = next(plain for pattern, plain in self._loose.values() if pattern.search(form))
        return start, end, self.mark("known", plain)

    def _shape_span(self, match: Match, shape: Shape) -> Span | None:
        start, end = match.span(1)
        secret: bytes = match.group(1)
        if shape.digit and not _DIGIT.search(secret):
            return None
        return start, end, self.mark(shape.label, secret)

    def _own_span(self, match: Match, pattern: Pattern) -> Span | None:
        start, end = match.span(1 if pattern.groups else 0)
        if start < 0:
            start, end = match.span()
        secret = match.group()[start - match.start() : end - match.start()]
        return (start, end, self.mark("custom", secret)) if secret else None

    def _flag_span(self, match: Match) -> Span | None:
        start, end, value, _quoted = value_of(match)
        if value.startswith(b"-") or not self._is_secret(match.group(1).decode("latin-1")):
            return None
        return start, end, self.mark("named", value)

    def _named_span(self, match: Match) -> Span | None:
        name: bytes = match.group(1)
        joint: bytes = match.group(2)
        start, end, value, quoted = value_of(match)
        if not self._is_secret(name.decode("latin-1")) or not self._told(name, joint, value, quoted=quoted):
            return None
        return start, end, self.mark("named", value)

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

    def _splice(self, data: bytes, depth: int) -> bytes:
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
        if not secret and ((len(token) < SHORTEST_KNOWN + 2 and not self._own) or not self.hints(token)):
            return token
        text = _string.decode(token).encode("utf-8", "surrogatepass")
        if secret and text.lower().decode("latin-1") not in SAID_OPENLY and not is_marked(text):
            return b'"' + self.mark("named", text) + b'"'
        redacted = self._text(text, depth)
        return token if redacted is text else msgspec.json.encode(redacted.decode("utf-8", "surrogatepass"))

    def _scalar(self, token: bytes, *, secret: bool) -> bytes:
        """A number, true, false or null; a number that is a secret becomes 0."""
        if not NUMBER.match(token) or token == b"0":
            return token
        if secret or self._is_known(token):
            self.counts["number"] += 1
            return b"0"
        return token

    def _is_known(self, number: bytes) -> bool:
        if self._literal is not None and self._literal.search(number):
            return True
        return any(match.group() for pattern in self._own for match in pattern.finditer(number))


class GlancingRedactor(Redactor):
    """One that loads RE2 when bytes have to be looked at closely, or by `look_closely`: for who is waited for."""

    _glances = True
