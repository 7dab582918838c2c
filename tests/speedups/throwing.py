"""What is thrown at functions in C: messages with damage, arguments of other types and counts, numbers that do not fit.

Owns how an example becomes many, the same ones for the same seed. Every buffer is made anew with the size that it has,
so that who reads past its end reads what is nobody's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, cast

Arguments = tuple[Any, ...]

TOKENS = (
    b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\n", b"\r", b"\t", b" ", b"\0", b"\x7f", b"\x80", b"\xff",
    b"\xc3", b"\xc3\xa9", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80", b"\xf4\x90\x80\x80", b"\\u0000", b"\\ud800",
    b"\\ud83d\\ude00", b"\\u", b"\\x", b"%", b"%d", b"%b", b"%%", b"%*d", b"-", b"0", b"-0", b"01", b"1e999", b"1.5",
    b".", b"9" * 18, b"9" * 19, b"9" * 40, b"9223372036854775807", b"9223372036854775808", b"-9223372036854775808",
    b"-9223372036854775809", b"null", b"true", b"false", b"tru", b"NaN", b"{}", b"[]", b"[" * 40, b"]" * 40,
    b'{"a":' * 30, b"[" * 3000, b" " * 70, b"x" * 17, b"x" * 129, b'"id":1,', b'"jsonrpc":"2.0",', b'"method":',
    b'"params":', b'"result":', b'"error":', b'"_meta":{"progressToken":1},', b'"name":"', b'"arguments":',
    b"\xef\xbb\xbf",
)  # fmt: skip
NUMBERS = (
    0, 1, -1, 2, 7, 9, 10, 127, 128, 255, 256, 2**31 - 1, 2**31, -(2**31), 2**32, 10**18, 10**18 - 1, 2**62, 2**63 - 1,
    2**63, -(2**63), -(2**63) - 1, 2**64 - 1, 2**64, 10**30, -(10**30), 1 << 5000,
)  # fmt: skip


class LikeBytes(bytes):
    """Bytes to `isinstance`, and none to who asks for them exactly."""


class LikeNumber(int):
    """The same of numbers."""


class LikeText(str):
    """The same of text."""

    __slots__ = ()


class Hostile:
    """Answers every question by an exception."""

    def __index__(self) -> int:
        raise RuntimeError("no number")

    def __len__(self) -> int:
        raise RuntimeError("no length")

    def __bytes__(self) -> bytes:
        raise RuntimeError("no bytes")

    def __iter__(self) -> Iterator[object]:
        raise RuntimeError("nothing in it")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not to be compared")

    def __hash__(self) -> int:
        raise RuntimeError("no hash")

    def __bool__(self) -> bool:
        raise RuntimeError("neither")


def strangers() -> list[Any]:
    """Values of all the types that a function may be given and does not want, made anew."""
    return [
        None, True, False, 1.5, float("nan"), 1j, "", "text", "\udcff", "\U0001f600", b"", b"x", LikeBytes(b"{}"),
        LikeText("x"), LikeNumber(3), bytearray(b"{}"), memoryview(b"{}"), memoryview(bytearray(8))[::2], [], [1],
        [None], [b"x", None], (), (b"x",), {}, {b"x": 1}, set[int](), object(), Hostile(), type, Ellipsis, *NUMBERS,
    ]  # fmt: skip


def own(data: bytes) -> bytes:
    """The same bytes in memory of their own."""
    return bytes(bytearray(data))


def damaged(random: Random, data: bytes) -> bytes:
    """These bytes, a few times damaged."""
    held = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
        at = random.randrange(len(held) + 1)
        to = min(len(held), at + random.choice((1, 1, 2, 4, 9, 33, len(held))))
        match random.randrange(7):
            case 0 if held:
                held[at % len(held)] ^= 1 << random.randrange(8)
            case 1 if held:
                held[at % len(held)] = random.randrange(256)
            case 2:
                del held[at:to]
            case 3:
                held[at:at] = held[at:to]
            case 4:
                del held[at:]
            case 5:
                held[at:to] = random.choice(TOKENS)
            case _:
                held[at:at] = random.choice(TOKENS)
        if len(held) > 200_000:
            del held[100_000:]
    return bytes(held)


def changed(random: Random, value: Any) -> Any:
    """Another value of the same type, near to this one, as a rule."""
    match value:
        case bool() | None:
            return random.choice((value, value, not value, None))
        case bytes():
            return damaged(random, value)
        case int():
            return random.choice((value, value + random.choice((-1, 1)), random.choice(NUMBERS), -value))
        case str():
            return damaged(random, value.encode(errors="surrogatepass")).decode(
                errors=random.choice(("replace", "surrogateescape"))
            )
        case list() | tuple():
            items = changed_items(random, cast(Sequence[Any], value))
            return items if isinstance(value, list) else tuple(items)
        case _:
            return value


def changed_items(random: Random, values: Sequence[Any]) -> list[Any]:
    """Some of these items changed, one perhaps gone, or there twice, or of another type."""
    items = [changed(random, value) if random.random() < 0.5 else value for value in values]
    if items and random.random() < 0.1:
        at = random.randrange(len(items))
        items[at : at + 1] = random.choice(([], [items[at]] * 2, [random.choice(strangers())]))
    return items


def fresh(value: Any) -> Any:
    """The same value, its buffers in memory of their own."""
    match value:
        case bytes() if type(value) is bytes:
            return own(value)
        case list() | tuple():
            items = [fresh(item) for item in cast(Sequence[Any], value)]
            return items if isinstance(value, list) else tuple(items)
        case _:
            return value


def odd(example: Arguments) -> Iterator[Arguments]:
    """The example with one argument of another type, too few of them, and too many."""
    for at in range(len(example)):
        for stranger in strangers():
            yield (*example[:at], stranger, *example[at + 1 :])
        if type(example[at]) is bytes:
            for other in (LikeBytes, bytearray, memoryview, bytes.hex):
                yield (*example[:at], other(example[at]), *example[at + 1 :])
    for count in range(len(example)):
        yield example[:count]
    yield (*example, None)
    yield (*example, *example)
    yield (None,) * 40


def cut_short(example: Arguments) -> Iterator[Arguments]:
    """The example with one of its byte strings cut off, at every byte of the first ones and of the last ones."""
    for at, value in enumerate(example):
        if type(value) is bytes:
            for size in {*range(min(len(value), 300)), *range(max(0, len(value) - 40), len(value))}:
                yield (*example[:at], value[:size], *example[at + 1 :])


def thrown(examples: Sequence[Arguments], count: int, *, seed: int = 0) -> Iterator[Arguments]:
    """What a function is called with: the examples, what is odd of them, and so many changed ones."""
    random = Random(seed)
    for example in examples:
        yield fresh(example)
        yield from odd(example)
        yield from map(fresh, cut_short(example))
    for _ in range(count):
        yield fresh(tuple(changed_items(random, random.choice(examples))))


def throw(function: Callable[..., object], arguments: Arguments) -> object:
    """Call it; what it raises is as good as what it returns, but for what says that the C is wrong.

    Raises:
        SystemError: If it returned nothing without an exception, or something with one.
    """
    try:
        return function(*arguments)
    except SystemError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is
        return type(error)
