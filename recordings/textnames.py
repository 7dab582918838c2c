"""Volatile values of a text form: what is written in their place, and what stands for them when it is read back.

Owns placeholders such as `<uuid#1>`, numbered in order of first appearance within a lane, and the stand-ins that an
import gives them. Which values are volatile is `classes`' business, and so that of every replay.
"""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import Raw

from recordings.classes import Detector
from recordings.profile import Profile

IDS = ("id", "requestId", "progressToken", "io.modelcontextprotocol/subscriptionId")
"""Members that name a request of the connection: which one it is, the frame's references say."""
ID = "<id>"

_SERVED = {"requestState": "state", "cursor": "cursor", "nextCursor": "cursor"}
"""Members that a peer gives out to have them back, and their class."""
_TOKENS = {"progressToken": "token", "traceparent": "trace", "tracestate": "trace"}
"""Members of `_meta` that are made up anew each time."""
_PLACEHOLDER = re.compile(r"<(<*)([a-z]+)#([0-9]{1,9})((?: [a-z0-9-]{1,32})?)>")
"""One more `<` before it says that it is meant itself."""
_LITERAL_ID = re.compile(r"<+id>")
_TIME_INSIDE = re.compile(
    r"(?<![0-9A-Za-z])[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?"
    r"(?:[Zz]|[+-][0-9]{2}:?[0-9]{2})?(?![0-9A-Za-z])"
)
_FINE = re.compile(r"[.,][0-9]{3}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MARK = re.compile(r"\[REDACTED:([a-z]+):[0-9a-f]{8}\]")
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_SCALES = (("s", 10**9, 10**11), ("ms", 10**12, 10**14), ("us", 10**15, 10**17), ("ns", 10**18, 10**20))

Spelt: TypeAlias = Any
"""A decoded body: dicts, lists, texts, booleans, None, integers, and `Float` for other numbers."""


class Float:
    """A number with a point or an exponent, spelt as it was."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


_decoder = msgspec.json.Decoder(Any, float_hook=Float)


def _raw(value: object) -> Raw:
    if isinstance(value, Float):
        return Raw(value.text.encode())
    raise TypeError(f"{type(value).__name__} is not of JSON")


_encoder = msgspec.json.Encoder(enc_hook=_raw)


def read(body: bytes) -> Spelt:
    """Decode a body so that `write` spells its numbers as they are. Raises `msgspec.DecodeError`, `RecursionError`."""
    return _decoder.decode(body)


def write(tree: Spelt) -> bytes:
    """The JSON of what `read` gives."""
    return _encoder.encode(tree)


class Namer:
    """Renames the volatile values of one lane, in the order in which it is given them."""

    def __init__(self, profile: Profile, *, public: bool = False) -> None:
        self._detector = Detector(profile)
        self._public = public
        self._counts: dict[str, int] = {}
        self._names: dict[tuple[str, str], str] = {}

    def renamed(self, tree: Spelt, *, is_message: bool = True) -> Spelt:
        """A body, or a table of facts, with its volatile values renamed.

        Raises `RecursionError` for what is nested too deep.
        """
        return self._value(tree, "", depth=0 if is_message else 9)

    def text(self, text: str) -> str:
        """A text that stands by itself, such as a line of output."""
        return self._text(text)

    def _value(self, node: Spelt, name: str, *, depth: int, parent: str = "") -> Spelt:
        if isinstance(node, dict):
            members = cast("dict[str, Any]", node)
            return {
                self._key(key): self._value(value, key, depth=depth + 1, parent=name)
                for key, value in members.items()
            }
        if isinstance(node, list):
            items = cast("list[Any]", node)
            return [self._value(each, name, depth=depth + 1, parent=parent) for each in items]
        if node is None or isinstance(node, bool):
            return node
        return self._scalar(node, name, depth, parent)

    def _scalar(self, node: str | int | Float, name: str, depth: int, parent: str) -> Spelt:
        text = node.text if isinstance(node, Float) else str(node)
        if depth == 1 and name == "id":
            return ID
        if depth == 2 and name in IDS and name != "id":
            return ID
        if name in IDS[3:]:
            return ID
        if name in _SERVED and depth == 2 and isinstance(node, str):
            return self._name(_SERVED[name], text)
        if name in _TOKENS and parent == "_meta":
            return self._name(_TOKENS[name], text, "" if isinstance(node, str) else " int")
        number = float(text) if isinstance(node, Float) else node
        kind = self._detector.by_name(name, number)
        if kind is not None and not (isinstance(node, str) and node.startswith("[REDACTED")):
            return self._typed(kind, node, text)
        if not isinstance(node, str):
            return node
        if self._detector.by_form(node):
            return self._typed("timestamp", node, text)
        if _LITERAL_ID.fullmatch(node):
            return "<" + node
        return self._text(node)

    def _key(self, key: str) -> str:
        return _literal(key)

    def _typed(self, kind: str, node: str | int | Float, text: str) -> str:
        """The placeholder of a whole value, which says what type and scale it is of."""
        if kind == "timestamp":
            return self._time(node, text)
        is_text = isinstance(node, str)
        usual = is_text != (kind in ("pid", "port"))
        return self._name(kind, text, "" if usual else " text" if is_text else " int")

    def _time(self, node: str | int | Float, text: str) -> str:
        if isinstance(node, str) and not text[:1].isdigit():
            return self._name("timestamp", text)
        if isinstance(node, str) and "-" in text[1:]:
            if _DATE.fullmatch(text):
                return self._fresh("timestamp", " date")
            return self._name("timestamp", text) if _FINE.search(text) else self._fresh("timestamp")
        scale = next((name for name, low, high in _SCALES if low // 10 <= float(text) < high), "s")
        of = "text" if isinstance(node, str) else "float" if isinstance(node, Float) else "int"
        shape = f" {of}-{scale}"
        # Two readings of a coarse clock may be equal in one run and not in another.
        is_coarse = scale == "s" and of != "float"
        return self._fresh("timestamp", shape) if is_coarse else self._name("timestamp", text, shape)

    def _text(self, text: str) -> str:
        data = text.encode("utf-8", "surrogatepass")
        out: list[str] = []
        copied = 0
        for found in self._detector.inside(data):
            out += (self._times(data[copied : found.start]), self._inside(found.kind, found.value))
            copied = found.end
        return "".join((*out, self._times(data[copied:])))

    def _inside(self, kind: str, value: str) -> str:
        if kind == "secret":
            mark = _MARK.fullmatch(value)
            if mark is None or self._public:
                return "[REDACTED]"
            return self._name("secret", value, f" {mark.group(1)}")
        if kind == "hex":
            return self._name("hex", value, f" {len(value)}")
        return self._name(kind, value)

    def _times(self, data: bytes) -> str:
        """Text without class values, in which times may stand among words."""
        text = _literal(data.decode("utf-8", "surrogatepass"))
        return _TIME_INSIDE.sub(lambda match: self._time(match.group(), match.group()), text)

    def _name(self, kind: str, value: str, shape: str = "") -> str:
        found = self._names.get((kind + shape, value))
        if found is None:
            found = self._names[kind + shape, value] = self._fresh(kind, shape)
        return found

    def _fresh(self, kind: str, shape: str = "") -> str:
        number = self._counts[kind] = self._counts.get(kind, 0) + 1
        return f"<{kind}#{number}{shape}>"


def _literal(text: str) -> str:
    """Text that is meant as it is, also where it looks like a placeholder."""
    return _PLACEHOLDER.sub(lambda match: "<" + match.group(), text) if "#" in text else text


class Restorer:
    """Gives the placeholders of one lane values of their class: the same for the same, others for others.

    `lane` keeps those of two lanes apart.
    """

    def __init__(self, lane: str) -> None:
        self._lane = lane

    def restored(self, tree: Spelt, id_: object) -> Spelt:
        """A body with values in the place of its placeholders; `id_` is that of the request that it names."""
        if isinstance(tree, dict):
            members = cast("dict[str, Any]", tree)
            return {self.text(key): self.restored(value, id_) for key, value in members.items()}
        if isinstance(tree, list):
            return [self.restored(each, id_) for each in cast("list[Any]", tree)]
        if not isinstance(tree, str):
            return tree
        if tree == ID:
            return id_
        if _LITERAL_ID.fullmatch(tree):
            return tree[1:]
        whole = _PLACEHOLDER.fullmatch(tree)
        if whole is not None and not whole.group(1):
            return self._value(whole)
        return self.text(tree)

    def text(self, text: str) -> str:
        """A text with values in the place of its placeholders."""
        return _PLACEHOLDER.sub(self._inside, text) if "<" in text else text

    def _inside(self, match: re.Match[str]) -> str:
        if match.group(1):
            return match.group()[1:]
        value = self._value(match)
        return value if isinstance(value, str) else str(value)

    def _value(self, match: re.Match[str]) -> Any:
        kind, number, shape = match.group(2), int(match.group(3)), match.group(4).strip()
        seed = hashlib.sha256(f"{self._lane}\n{kind}\n{number}".encode()).hexdigest()
        match kind:
            case "uuid":
                return f"{seed[:8]}-{seed[8:12]}-4{seed[13:16]}-8{seed[17:20]}-{seed[20:32]}"
            case "hex":
                # A hex value without a letter would be a number.
                length = min(int(shape), 4096) if shape.isdigit() else 32
                return ("a" + seed[1:] * (length // 63 + 1))[:length]
            case "secret":
                return f"[REDACTED:{shape or 'secret'}:{seed[:8]}]"
            case "timestamp":
                return _moment(number, shape)
            case "pid":
                return str(10_000 + number) if shape else 10_000 + number
            case "port":
                return str(40_000 + number % 20_000) if shape else 40_000 + number % 20_000
            case "session" | "token" if shape:
                return 1_000_000 + number
            case "tempname":
                return f"tmp{seed[:8]}"
            case _:
                return f"{kind}-{number}-{seed[:8]}"


def _moment(number: int, shape: str) -> Any:
    if shape == "date":
        return (_BEGIN + timedelta(days=number)).date().isoformat()
    of, _, scale = shape.partition("-")
    if not scale:
        return (_BEGIN + timedelta(seconds=number, microseconds=1)).isoformat().replace("+00:00", "Z")
    seconds = int(_BEGIN.timestamp()) + number
    value = seconds * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}.get(scale, 1)
    return Float(f"{value}.25") if of == "float" else str(value) if of == "text" else value
