"""`PROGRAM … ask TOOL name=value …`: tools called from a command line, to try them and to see what an agent sees.

Owns the reading of such words and the printing of answers. The tools are called as a host calls them.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from adapters import kit
from transports.interrupts import INTERRUPTED, READER_GONE, drop_output, heed

Json: TypeAlias = dict[str, Any]
ASK = "ask"
THEN = "then"
"""Stands between two calls, which one process answers."""


def add_words(parser: argparse.ArgumentParser) -> None:
    """Let the words of calls follow the options, behind all of which they stand."""
    parser.add_argument(
        ASK,
        nargs=argparse.REMAINDER,
        metavar=f"{ASK} TOOL NAME=VALUE …",
        help=f"call a tool once instead, print what it gives and end; `{THEN}` stands between two calls",
    )


def run_or_ask(app: kit.App, options: argparse.Namespace, *, program: str) -> None:
    """Serve, or where there are words make the calls and end the process with 0, or 1 where one has failed."""
    if not options.ask:
        kit.run(app, options)
        return
    try:
        asked = calls(app, options.ask)
    except WordsError as fault:
        sys.exit(f"{program}: {fault}")
    try:
        heed()
        code = asyncio.run(ask(app, asked))
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        drop_output()
        code = READER_GONE
    sys.exit(code)


def write_sample(program: str, to: str, write: Callable[[str], object]) -> None:
    """Write a sample to a new place; end the process with a sentence where that cannot be done."""
    try:
        write(to)
    except FileExistsError:
        sys.exit(f"{program}: --write-sample {to}: is there already; name a new one")
    except OSError as fault:
        sys.exit(f"{program}: --write-sample {to}: {fault.strerror or fault}")


class WordsError(Exception):
    """What is wrong with the words, in a sentence."""


def calls(app: kit.App, words: Sequence[str]) -> list[tuple[str, Json]]:
    """The calls that words mean. A value is text where the tool wants text, else JSON. Raises `WordsError`."""
    if not words or words[0] != ASK:
        raise WordsError(
            f"{' '.join(words)!r}: after the options there is nothing, or `{ASK} TOOL NAME=VALUE …`"
        )
    groups: list[list[str]] = [[]]
    for word in words[1:]:
        groups.append([]) if word == THEN else groups[-1].append(word)
    found: list[tuple[str, Json]] = []
    for group in groups:
        name = group[0] if group else ""
        if name not in app.tools:
            raise WordsError(f"no tool {name!r}; there are {', '.join(app.tools)}")
        found.append((name, _arguments(name, app.tools[name].signature.schema["properties"], group[1:])))
    return found


async def ask(app: kit.App, asked: Sequence[tuple[str, Json]]) -> int:
    """Make the calls one after the other and print what they give; 1 where one of them fails, which ends it."""
    async with app.testing("mcp") as extension:
        for name, arguments in asked:
            result = await extension.call(name, **arguments)
            if result.is_error:
                sys.stderr.write(f"{name}: {result.text.removeprefix(f'{name}: ')}\n")
                return 1
            sys.stdout.write(result.text.rstrip("\n") + "\n")
    return 0


def _arguments(name: str, known: Json, words: Sequence[str]) -> Json:
    found: Json = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in known:
            raise WordsError(f"{name}: {word!r} is none of {', '.join(f'{each}=…' for each in known)}")
        found[key] = value if _is_text(known[key]) else _read(word, value)
    return found


def _is_text(schema: Json) -> bool:
    return schema.get("type") == "string" or "enum" in schema or any(map(_is_text, schema.get("anyOf", ())))


def _read(word: str, value: str) -> Any:
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError as fault:
        raise WordsError(f"{word!r}: {fault}") from None
