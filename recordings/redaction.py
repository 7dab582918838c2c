"""Taking secrets out of bodies before anything else sees them, by name, by shape and by exact value.

Owns the redactor: what it looks for, and a prefilter over raw bytes that costs a few microseconds a KiB. What counts as
a name is `names`' business, what secrets look like is `patterns`', and how they are taken out of what the prefilter has
found is `cutting`'s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import msgspec

from recordings.frame import NO_BODY, Frame
from recordings.glance import MOST_GLANCES, Glances, Look, glancing
from recordings.linear import Pattern, any_of, compiled, compiled_late, escaped
from recordings.names import Names
from recordings.patterns import (
    HARMLESS,
    SHAPES,
    SHORTEST_KNOWN,
    escaped_form,
    forms_of,
    prefilter,
)

if TYPE_CHECKING:
    from recordings.cutting import Cutter


def _nothing(data: bytes) -> None:
    """What a look for no pattern finds."""
    del data


class Sought(msgspec.Struct, frozen=True):
    """Exact values that are secrets, and where to look closer. Replaced as a whole: a thread may be looking."""

    known: dict[bytes, bytes] = {}
    """Each form of a value, and the value."""
    loose: dict[bytes, tuple[Pattern, bytes]] = {}
    """Patterns of values that may be spelled with any escapes, and the value."""
    literal: Pattern | None = None
    """Finds each of both; None where there are none."""
    anywhere: Pattern | None = None
    """Finds whatever there is in JSON."""


class Redactor:
    """Redacts under one project's key, so that equal secrets stay recognisable as equal and unguessable.

    `known` are secrets that the gateway itself handles; those shorter than six characters are not looked for.
    Redacting twice is redacting once.
    """

    _glances = False
    _glances_in_c = True
    """Where there is the C for it."""

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
        self.sought = Sought()
        """What `know` was told of, for who takes it out."""
        own = [pattern.encode() for pattern in patterns]
        self._own = [compiled(pattern) for pattern in own]
        # What is escaped in a string may match only once it is not.
        self._own_sources = (*own, rb"\\") if own else ()
        self._own_match = any_of(self._own_sources) if own else _nothing
        self._prefilter = prefilter(self._names.stems)
        self._set_aside = cache(self._harmless)
        self.counts: Counter[str] = Counter()
        """How often each class was found; never a value."""
        self._is_all = [True]
        """Emptied as soon as there is one secret more, for those who look for what was known before."""
        self.generation = 0
        """Changes whenever there is more that is a secret."""
        self._quickened = -1
        self._cutter: Cutter | None = None
        self.know(known)

    def know(self, secrets: Iterable[str]) -> None:
        """Look for these values too, in every form, from now on."""
        # In copies: a thread may be looking for what is known so far.
        known, loose_forms = dict(self.sought.known), dict(self.sought.loose)
        for secret in secrets:
            if len(secret) >= SHORTEST_KNOWN:
                plain = secret.encode("utf-8", "surrogatepass")
                known.update(dict.fromkeys(forms_of(secret), plain))
                loose = escaped_form(secret)
                if loose is not None:
                    loose_forms[loose] = (compiled_late(loose), plain)
        # Longest first: a form that contains another one is to be taken whole.
        literals = sorted(known, key=len, reverse=True)
        pattern = b"|".join([*loose_forms, *(escaped(literal) for literal in literals)])
        telling = (*(shape.pattern for shape in SHAPES), *self._prefilter)
        sure = (*([pattern] if literals else []), *self._own_sources)
        # A project's own patterns may begin anywhere, so they are looked for in each string by itself.
        near = (*telling, *([pattern] if literals else []))
        self.sought = Sought(
            known,
            loose_forms,
            compiled_late(b"(" + pattern + b")") if literals else None,
            compiled_late(b"|".join(b"(?:" + each + b")" for each in near)),
        )
        look = partial(any_of, (*telling, *sure))
        # Rules of a project's own may match without any of the words that a glance is for.
        is_plain = not self._own and not loose_forms and self._names.is_built_in
        self._before = glancing(telling, known) if is_plain and self._glances_in_c else None
        self._sure = frozenset(range(len(telling), len(telling) + len(sure)))
        self._scanned = near
        self._every: Look = (
            Glances(look, known, glances=0 if self._before else MOST_GLANCES)
            if self._glances and is_plain
            else look()
        )
        self.hints: Look = self._before(self._every) if self._before else self._every
        """Whether bytes have to be looked at more closely, by `suspects`: the patterns that match, or nothing. Nothing,
        too, may be told of bytes in which all that matches are names that are set aside: see `finds`."""
        self._first_hints: Look = self.hints
        self._is_all.clear()
        self._is_all = [True]
        self.generation += 1

    @property
    def finds(self) -> Look:
        """The patterns that match, as `hints`, but also where all that matches are names that are set aside."""
        return self._every if self._before else self.hints

    def settle(self) -> None:
        """Have at hand what glances are in the place of. May be called in a thread."""
        _ = self.cutter
        if isinstance(self._every, Glances):
            self._every.settle()

    def look_closely(self) -> None:
        """Be done with glances, for good. For who may call `know`: in a thread it could undo that."""
        self._glances = False
        every = self._every
        if isinstance(every, Glances):
            self._every = every.settle()
            if self.hints is self._first_hints:
                self.hints = self._first_hints = self._before(self._every) if self._before else self._every

    def quicken(self, compiled: Callable[[Sequence[bytes]], bytes | None] | None = None) -> None:
        """Have `hints` look at what holds no secret, as most does, in a fraction of the time; they stay the same.

        Takes time and memory, so for those who look at much; `compiled` is as `scanner` has it. Lasts until there is
        more that is a secret. May be called in a thread; where it cannot be done, nothing happens, nor where there is a
        glance in C, which is as quick and leaves little to look at.
        """
        generation = self.generation
        if self._quickened == generation or self._before:
            return
        self._quickened = generation
        is_all = self._is_all
        from recordings.scanner import halt, scanner

        scan = scanner(self._scanned, compiled)
        if scan is None:
            return
        own = self._own_match
        turns = [None]
        """Taken and given back in one step each, whichever thread does."""

        def hints(data: bytes) -> list[int] | None:
            # Asked each time: what was made in a thread may be out of date when it comes.
            if not is_all:
                return self._every(data)
            try:
                turns.pop()  # or an IndexError, where another thread is looking
                try:
                    scan(data, halt)
                finally:
                    turns.append(None)
            except Exception:  # noqa: BLE001 - a match, or it could not look
                return self._every(data)
            return None

        def hints_with_own(data: bytes) -> list[int] | None:
            found = hints(data)
            return self._every(data) if not found and own(data) else found

        self.hints = hints_with_own if self._own else hints

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
        return self.cutter.json(data, 0) if self.suspects(data) else data

    def text(self, text: str) -> str:
        """A text that is no JSON, such as an error message or a line of stderr, without its secrets."""
        data = text.encode("utf-8", "surrogatepass")
        redacted = self.raw(data)
        return text if redacted is data else redacted.decode("utf-8", "surrogatepass")

    def raw(self, data: bytes) -> bytes:
        """Bytes of any kind without their secrets: the same object where there are none."""
        return self.cutter.text(data, 0) if self.suspects(data) else data

    @property
    def cutter(self) -> Cutter:
        """Who takes out what is found: loaded once something is, or by `settle`."""
        cutter = self._cutter
        if cutter is None:
            from recordings.cutting import Cutter

            # In two threads at once it is made twice, and either will do.
            cutter = self._cutter = Cutter(self, self._names, self._own, self._own_match)
        return cutter

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

        from recordings.marks import mark_of

        self.counts[label] += 1
        tail = hmac.digest(self._key, secret, "sha256").hex()[:8]
        return mark_of(label, tail)


class GlancingRedactor(Redactor):
    """One that loads RE2 when bytes have to be looked at closely, or by `look_closely`: for who is waited for."""

    _glances = True
