"""Looks at long bodies beside the loop: what is found is what would be found later, or nothing is."""

from __future__ import annotations

import hashlib
import sys
import threading

import pytest

from recordings.looks import Looks
from recordings.redaction import Redactor

SECRET = "hunter2-and-more"


def looked(looks: Looks, body: bytes) -> None:
    done = threading.Event()
    looks.begin(body, done.set)
    assert done.wait(20)


@pytest.mark.parametrize("text", ["harmless", SECRET])
def test_a_look_finds_the_hash_of_a_body_and_whether_it_may_hold_a_secret(text: str) -> None:
    looks = Looks(Redactor(b"k" * 32, known=[SECRET]))
    body = b'{"text":"%b"}' % text.encode()
    assert looks.seen(body) is None
    looked(looks, body)
    seen = looks.seen(body)
    assert seen is not None
    assert (seen.digest, seen.is_suspected) == (hashlib.sha256(body).hexdigest(), text == SECRET)


def test_what_was_found_counts_for_that_object_alone_and_until_it_is_passed_on() -> None:
    looks = Looks(Redactor(b"k" * 32))
    body = b'{"text":"x"}' * 9
    looked(looks, body)
    assert looks.seen(bytes(bytearray(body))) is None
    looks.end(body)
    assert looks.seen(body) is None
    looks.end(body)


def test_what_was_found_is_nothing_once_there_are_more_secrets() -> None:
    redactor = Redactor(b"k" * 32)
    looks = Looks(redactor)
    body = b'{"text":"%b"}' % SECRET.encode()
    looked(looks, body)
    redactor.know([SECRET])
    assert looks.seen(body) is None


def test_whoever_waits_for_a_look_that_fails_is_told_all_the_same() -> None:
    class Blind(Redactor):
        def suspects(self, data: bytes) -> bool:
            raise ValueError(data)

    looks = Looks(Blind(b"k" * 32))
    body = b"{}"
    looked(looks, body)
    assert looks.seen(body) is None


def test_where_no_thread_can_be_begun_whoever_waits_is_told_at_once_and_the_next_look_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    looks = Looks(Redactor(b"k" * 32))
    body, told = b"{}", list[str]()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        looks.begin(body, lambda: told.append("first"))
    assert told == ["first"]
    assert looks.seen(body) is None
    looked(looks, body)
    assert looks.seen(body) is not None
    assert told == ["first"]


def test_whoever_waits_is_told_also_where_what_hashes_cannot_be_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "hashlib", None)
    looks = Looks(Redactor(b"k" * 32))
    body = b"{}"
    looked(looks, body)
    assert looks.seen(body) is None
