"""The program that looks for what calls of C leave behind: `PYTHONMALLOC=malloc python -m tests.speedups.leaks COUNT`.

Owns the counting: of bytes that are in use by what the C library has given, to the byte, for every way to call a
function that there is an example of. A reference that is not given back keeps an object, and so shows here too.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from tests.speedups.examples import FUNCTIONS, KINDS, Kind
from tests.speedups.modules import PACKAGES, functions_of, loaded, types_of
from tests.speedups.thrower import life
from tests.speedups.throwing import Arguments, changed_items, fresh, odd, throw

MANY = 300
"""Calls of one way between two looks. What a fault leaves is a byte a call, and more."""
SPARE_BYTES = 4096
"""What may stay all the same."""
TRIES = 3
TOLD = (
    "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
)  # fmt: skip


class Heap(ctypes.Structure):
    """What `mallinfo2` tells."""

    _fields_ = [(name, ctypes.c_size_t) for name in TOLD]


mallinfo: Any = getattr(ctypes.CDLL(None), "mallinfo2", None)
"""None where the C library has none."""
if mallinfo:
    mallinfo.restype = Heap


def in_use() -> int:
    """How many bytes are taken and not given back."""
    gc.collect()
    found = mallinfo()
    return found.uordblks + found.hblkhd


def main(count: str) -> int:
    """Look at all functions and types; 1 where one leaves something."""
    leaking = [told for package in PACKAGES for told in leaks(package, int(count))]
    print("\n".join(leaking) if leaking else "nothing stays")
    return 1 if leaking else 0


def leaks(package: str, count: int) -> Iterator[str]:
    """Where something stays, in words."""
    module = loaded(package)
    for name in functions_of(module):
        yield from of_calls(f"{package}.{name}", getattr(module, name), FUNCTIONS[f"{package}.{name}"], count)
    for name in types_of(module):
        kind = KINDS[f"{package}.{name}"]
        yield from of_calls(f"{package}.{name}", getattr(module, name), kind.construct(module), count)

        def lives(kind: Kind = kind) -> None:
            random = Random(3)
            for _ in range(8):
                one = kind.make(module)
                for method, arguments in life(random, kind):
                    throw(getattr(one, method), arguments)

        if kind.methods:
            yield from of_way(f"{package}.{name} and its methods", lives, max(4, count // 2000))


def of_calls(
    name: str, function: Callable[..., object], examples: tuple[Arguments, ...], count: int
) -> Iterator[str]:
    """Every example often, every odd one of it, and changed ones of all."""
    random = Random(4)
    for example in examples:
        yield from of_way(f"{name}{example!r:.200}", all_of(function, [example]), count)
        yield from of_way(f"{name}, odd ones of {example!r:.200}", all_of(function, list(odd(example))), MANY)
    different = [tuple(changed_items(random, random.choice(examples))) for _ in range(200)]
    yield from of_way(f"{name}, changed ones", all_of(function, different), max(4, count // 200))


def all_of(function: Callable[..., object], calls: list[Arguments]) -> Callable[[], None]:
    """A function that makes all these calls."""

    def made() -> None:
        for arguments in calls:
            throw(function, fresh(arguments))

    return made


def of_way(name: str, way: Callable[[], object], count: int) -> Iterator[str]:
    """Whether bytes stay of calls of one way, in words. What leaves them does so again, tables grow only once."""
    told = ""
    for _ in range(TRIES):
        way()
        before = in_use(), references()
        for _ in range(count):
            way()
        stay, more = in_use() - before[0], references() - before[1]
        if stay <= SPARE_BYTES and more < count:
            return
        told = f"{name}: {stay} bytes and {more} references of {count} calls"
    yield told


def references() -> int:
    """To values that are there once, and so take no memory where they are kept. From 3.12 on these are not counted."""
    return sum(map(sys.getrefcount, (None, True, False, b"", 0)))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
