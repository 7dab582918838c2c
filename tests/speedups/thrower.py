"""The program that throws things at extension modules of another build, which lie in a folder.

It is run by `python -m tests.speedups.thrower FOLDER COUNT`. Under sanitizers it ends at the first fault, of which they
print what they know. What it is about to do it says on stdout, so that one knows at what it ended.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

from tests.speedups.examples import FUNCTIONS, KINDS, MESSAGES, Kind
from tests.speedups.modules import PACKAGES, ROOT, Instead, functions_of, loaded, types_of
from tests.speedups.throwing import Arguments, changed_items, damaged, fresh, odd, own, throw, thrown

LIFE = 40
"""So many calls one object is asked at most."""


def main(folder: str, count: str) -> int:
    """Throw, and tell how much was thrown."""
    Instead(Path(folder)).install()
    total = 0
    for package in PACKAGES:
        module = loaded(package)
        assert Path(module.__file__ or "").is_relative_to(folder), module.__file__
        for name in functions_of(module):
            total += told(f"{package}.{name}", throw_at(module, package, name, int(count)))
        for name in types_of(module):
            kind = KINDS[f"{package}.{name}"]
            total += told(f"{package}.{name}", throw_at_type(module, name, kind, int(count)))
    for name, same in differentials():
        total += told(name, hold_same(same, int(count) // 4))
    print(f"{total} calls")
    return 0


def told(name: str, throwing: Iterator[None]) -> int:
    """Say at what things are thrown now, and do it; how many they were."""
    print(name, flush=True)
    return sum(1 for _ in throwing)


def throw_at(module: ModuleType, package: str, name: str, count: int) -> Iterator[None]:
    """All that is thrown at one function."""
    function = getattr(module, name)
    for arguments in thrown(FUNCTIONS[f"{package}.{name}"], count):
        throw(function, arguments)
        yield


def throw_at_type(module: ModuleType, name: str, kind: Kind, count: int) -> Iterator[None]:
    """All that is thrown at a type: making one of it, each method, and methods in any order."""
    for arguments in thrown(kind.construct(module), count // 4):
        throw(getattr(module, name), arguments)
        yield
    for method, examples in kind.methods.items():
        for example in examples:
            for arguments in odd(example):
                one = kind.make(module)
                throw(getattr(one, method), arguments)
                yield
    random = Random(1)
    for _ in range(count // LIFE if kind.methods else 0):
        one = kind.make(module)
        for method, arguments in life(random, kind):
            throw(getattr(one, method), arguments)
            yield


def life(random: Random, kind: Kind) -> Iterator[tuple[str, Arguments]]:
    """What one object is asked, one after the other."""
    methods = kind.methods | kind.around
    for _ in range(LIFE):
        method = random.choice(sorted(methods))
        example = random.choice(methods[method])
        yield method, fresh(tuple(changed_items(random, example)) if random.random() < 0.5 else example)


def differentials() -> Iterator[tuple[str, Callable[[bytes], None]]]:
    """The functions of the tests that hold C and Python equal for some bytes."""
    for path in sorted((ROOT / "tests").rglob("test_speedups*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        same: Any = getattr(importlib.import_module(name), "same", None)
        if same is not None:
            yield f"{name}.same", same


def hold_same(same: Callable[[bytes], None], count: int) -> Iterator[None]:
    """Hold both ways equal for messages with damage."""
    random = Random(2)
    for message in MESSAGES:
        for size in range(len(message) + 1):
            same(own(message[:size]))
            yield
    for _ in range(count):
        same(own(damaged(random, random.choice(MESSAGES))))
        yield


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
