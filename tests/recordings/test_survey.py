"""The quick way through a whole recording finds what the thorough one finds, or leaves the verdict to it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import astuple

from recordings import files
from recordings.errors import DamagedError
from recordings.frame import Frame
from recordings.reader import index_anew, open_recording
from recordings.sealing import Index, IndexBuilder, gathered
from recordings.segment import Tally, line_from, scan
from recordings.survey import IrregularError, Known, survey
from tests.recordings.recording_kit import frame, recorded, session


def lines_of(path: Path) -> list[bytes]:
    return [line + b"\n" for line in (path / files.FRAMES).read_bytes().split(b"\n")[:-1]]


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """The lines of several blocks, with a hole among them, and frames that no block line speaks for."""
    frames = [each for each in session(220) if not 100 <= each.seq < 103]
    frames[30] = frame(31, kind="mark", x={"text": '"kind":"block"'})
    frames[31] = frame(32, b'{"kind":"block"}')
    found = lines_of(recorded(tmp_path_factory.mktemp("survey") / "r", frames))
    while b'"kind":"block"' in found[-1]:
        found.pop()
    assert sum(b'"kind":"block"' in line for line in found) > 3
    return found


def thoroughly(lines: list[bytes]) -> Index | str:
    """What a scan comes to: an index, or the damage that it tells of."""
    builder = IndexBuilder()
    try:
        for scanned in scan(lines, builder.tally):
            builder.see(scanned)
    except DamagedError as error:
        return str(error)
    return builder.index()


def in_either_way(lines: list[bytes]) -> Index | str:
    try:
        return gathered(lambda _: lines, lambda _: None).index()
    except DamagedError as error:
        return str(error)


def test_what_is_regular_is_found_in_the_quick_way_alone(lines: list[bytes]) -> None:
    seen: list[Known] = []
    told: list[int] = []
    tally, expected = Tally(), Tally()
    survey(lines, tally, seen.append, told.append)
    frames = [each.frame for each in scan(lines, expected) if each.frame.kind != "block"]
    assert astuple(tally) == astuple(expected)
    assert tally.holes == [(100, 102, "not recorded")]
    assert [(each.seq, each.kind, each.re, each.method) for each in seen] == [
        (each.seq, each.kind, each.re, each.method) for each in frames
    ]
    assert told == sorted(told)
    assert len(told) == tally.blocks
    assert in_either_way(lines) == thoroughly(lines)


def bent(line: bytes) -> bytes:
    place = len(line) // 3
    return line[:place] + bytes([line[place] ^ 1]) + line[place + 1 :]


CHANGES: dict[str, Callable[[list[bytes], int], list[bytes]]] = {
    "bent": lambda lines, at: [*lines[:at], bent(lines[at]), *lines[at + 1 :]],
    "missing": lambda lines, at: [*lines[:at], *lines[at + 1 :]],
    "twice": lambda lines, at: [*lines[: at + 1], *lines[at:]],
    "swapped": lambda lines, at: [*lines[:at], *reversed(lines[at : at + 2]), *lines[at + 2 :]],
    "cut": lambda lines, at: lines[:at],
    "torn": lambda lines, at: [*lines[:at], lines[at][:-5]],
    "no frame": lambda lines, at: [*lines[:at], line_from(b'{"seq":1,"kind":"none"}'), *lines[at + 1 :]],
    "bent at the end": lambda lines, at: [*lines[:-1], bent(lines[-1])],
}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_is_wrong_the_verdict_is_that_of_a_scan(lines: list[bytes], change: str) -> None:
    dice = random.Random(change)
    for at in {0, 1, len(lines) - 1, *(dice.randrange(len(lines)) for _ in range(40))}:
        changed = CHANGES[change](lines, at)
        assert in_either_way(changed) == thoroughly(changed)


def test_a_block_that_does_not_end_is_not_kept_in_memory() -> None:
    size = 0

    def endless() -> Iterator[bytes]:
        nonlocal size
        line = line_from(b'{"seq":1,"kind":"mark","name":"%b"}' % (b"x" * 60_000))
        while True:
            size += len(line)
            yield line

    with pytest.raises(IrregularError):
        survey(endless(), Tally(), lambda _: None, lambda _: None)
    assert size < 8 * 1024 * 1024


def test_a_carriage_return_in_a_body_ends_no_line_where_an_index_is_made_anew(tmp_path: Path) -> None:
    frames: list[Frame] = [frame(seq, b'{\r\n"a":\r%d\r\n}' % seq) for seq in range(1, 9)]
    path = recorded(tmp_path / "r", frames, seal=True)
    assert index_anew(path) == open_recording(path).index
    assert bytes(open_recording(path).frame(3).body) == b'{\r "a":\r3\r }'
