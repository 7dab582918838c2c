"""What is held of a peer that is there and idle: once for every peer, so that a table of attributes counts."""

from __future__ import annotations

import pytest

from gateway.calls.damage import Damage
from gateway.calls.flood import Flood
from gateway.calls.peer_state import Peer
from gateway.calls.restart import RestartMachine
from gateway.calls.seat import Queue, Seat
from gateway.calls.wants import Wants
from gateway.runtime.connection import Connection
from gateway.runtime.frame_words import LONGEST_WORD, MOST_WORDS, Words
from gateway.runtime.life import Life
from gateway.runtime.stderr import StderrTap
from gateway.runtime.supervisor import PeerProcess
from gateway.runtime.tether import KeptTether
from transports.framing import LineFramer
from transports.lines import LineLink

HELD = (
    Connection, Damage, Flood, KeptTether, Life, LineFramer, LineLink, Peer, PeerProcess, Queue, RestartMachine, Seat,
    StderrTap, Wants,
)  # fmt: skip


@pytest.mark.parametrize("held", HELD, ids=lambda held: held.__name__)
def test_nothing_that_is_held_of_each_peer_has_a_table_of_attributes(held: type) -> None:
    assert held.__dictoffset__ == 0


@pytest.mark.parametrize(
    "alike",
    [
        ("request", "files", ">peer", "initialize", "", "synthetic"),
        ("response", "files", "peer>", "initialize", ""),
        ("notification", "files", ">peer", "notifications/initialized", "", "synthetic"),
        ("request", "files", ">peer", "tools/list", "", "synthetic"),
        ("response", "files", "peer>", "tools/list", ""),
        ("open", "files", "inside", "", ""),
        ("ready", "files", "inside", "", ""),
        ("spawn", "files", "inside", "", ""),
    ],
)
def test_words_of_frames_that_come_once_in_a_life_are_not_kept(alike: tuple[str, ...]) -> None:
    words, kept = Words(lambda _: False), Words(lambda _: False)

    head, tail, is_harmless = words[alike]
    kind, peer, way, method, name, *flags = alike
    other = kept[(kind, peer, way, "tools/call", name, *flags)]

    assert not words
    assert is_harmless
    assert head == (b'"kind":"%b","peer":"files","way":"%b"' % (kind.encode(), way.encode()))
    assert words[alike] == (head, tail, is_harmless)
    assert other[1].replace(b"tools/call", method.encode()) == tail or not method


def test_forms_of_calls_are_kept_of_so_many_tools_and_of_names_of_a_usual_length() -> None:
    words = Words(lambda _: False)
    long = "x" * (LONGEST_WORD + 1)

    assert words.call("files", long) == words.call("files", long)
    assert words.answer(long) == words.answer(long)
    assert [len(each) for each in (words, words.forms, words.calls, words.answers)] == [0, 0, 0, 0]
    for number in range(MOST_WORDS + 10):
        words.call("files", f"tool{number}")
        words.answer(f"peer{number}")
    assert len(words.calls) + len(words.answers) == len(words.forms) == len(words) == MOST_WORDS


def test_words_of_lists_are_kept_of_cores() -> None:
    words = Words(lambda _: False)

    first = words["request", "", "core>", "tools/list", ""]

    assert words["request", "", "core>", "tools/list", ""] is first


def test_words_of_calls_are_kept() -> None:
    words = Words(lambda _: False)

    first = words["request", "files", ">peer", "tools/call", "read"]

    assert words["request", "files", ">peer", "tools/call", "read"] is first
    assert len(words) == 1
