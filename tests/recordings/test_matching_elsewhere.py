"""Requests that are matched in a run whose folders and ids are others than the recorded ones."""

from __future__ import annotations

import msgspec

from recordings.form import Form, form_of
from recordings.matching import Live, Match, Matcher, Miss, Recorded
from recordings.near import Nearest, Request
from recordings.profile import BUILT_IN, Profile

HERE = BUILT_IN.with_roots({"cwd": "/home/ann/shop"})
THERE = BUILT_IN.with_roots({"cwd": "/builds/7"})
READ = "resources/read"


def params(uri: str) -> bytes:
    return msgspec.json.encode({"uri": uri})


def form(profile: Profile, uri: str) -> Form:
    return form_of(profile, READ, uri, params(uri), peer="fs")


def matcher(*uris: str) -> Matcher:
    """A replay in which these resources were read, numbered from 0."""
    requests = [Recorded(seq, seq, "fs", "", READ, uri, consumption="fifo") for seq, uri in enumerate(uris)]
    return Matcher(requests, form=lambda seq: form(HERE, uris[seq]), outcome=lambda seq: uris[seq].encode())


def live(uri: str) -> Live:
    return Live("fs", "", READ, uri, form(THERE, uri))


def test_a_resource_is_found_whose_uri_lies_under_a_root() -> None:
    recorded = matcher("file:///home/ann/shop/a.py", "file:///home/ann/shop/b.py")
    assert recorded.match(live("file:///builds/7/b.py")) == Match(1)
    assert recorded.match(live("file:///builds/7/a.py")) == Match(0)
    assert isinstance(recorded.match(live("file:///builds/7/c.py")), Miss)


def test_a_resource_is_found_whose_uri_holds_an_id() -> None:
    recorded = matcher("run://0af76519-16cd-43dd-8448-eb211c80319c/log")
    assert recorded.match(live("run://2af76519-16cd-43dd-8448-eb211c80319c/log")) == Match(0)


def test_resources_with_other_uris_are_neighbours() -> None:
    uris = ["file:///home/ann/shop/a.py", "file:///home/ann/shop/b.py"]
    index = Nearest(
        HERE,
        [Request(seq, "fs", READ, uri) for seq, uri in enumerate(uris)],
        lambda seq: params(uris[seq]),
        live=THERE,
    )
    found = index.of("fs", READ, "file:///builds/7/b.py", params("file:///builds/7/b.py"))
    assert [(each.seq, each.distance) for each in found] == [(1, "0 of 1 values"), (0, "2 of 2 values")]
