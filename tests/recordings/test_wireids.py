"""Wire ids count on without gaps where requests are left out, wherever a message says them."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordings.frame import Frame
from recordings.renumber import renumbered
from recordings.wireids import WireIds, with_ids
from tests.recordings.recording_kit import frame, same


class Ask(NamedTuple):
    """A request of the core to a peer, of the gateway to a peer, or of a peer to the core, and what becomes of it."""

    who: str
    peer: str
    end: str
    core_id: int


def gateway(asks: list[Ask]) -> list[Frame]:
    """The frames that a gateway leaves: to each peer, and to the core, it counts its ids."""
    frames: list[Frame] = []
    counts: dict[str, int] = {}

    def add(kind: str, way: str, body: object, peer: str, **fields: object) -> int:
        frames.append(frame(len(frames), msgspec.json.encode(body), kind, way=way, peer=peer, at=0, **fields))
        return frames[-1].seq

    for who, peer, end, core_id in asks:
        endpoint = "" if who == "peer" else peer
        wire = counts[endpoint] = counts.get(endpoint, 0) + 1
        back, forth = ("core>", ">core") if who == "peer" else ("peer>", ">peer")
        if who == "gateway":
            params = {"_meta": {"progressToken": wire, "x": core_id}}
            asked = {"jsonrpc": "2.0", "id": wire, "params": params}
            seq = add("request", ">peer", asked, peer, id=wire, method="m")
        else:
            # Under an id of its sender's, which stays.
            way = "core>" if who == "core" else "peer>"
            seq = add("request", way, {"id": core_id, "params": {"n": 1}}, peer, id=core_id, method="m")
        if end == "progress":
            told = {"method": "notifications/progress", "params": {"progressToken": wire, "progress": 1}}
            add("notification", back, told, peer, re=seq, method="notifications/progress")
        if end == "cancel":
            told = {"method": "notifications/cancelled", "params": {"requestId": wire}}
            add("notification", forth, told, peer, re=seq, method="notifications/cancelled")
        elif end != "lost":
            kind = "error" if end == "error" else "response"
            result = {"id": wire, "result": {"id": wire, "text": f"{wire}"}}
            add(kind, back, result, peer, re=seq, id=wire)
    return frames


ASKS = st.lists(
    st.builds(
        Ask,
        st.sampled_from(["core", "gateway", "peer"]),
        st.sampled_from(["db", "lsp"]),
        st.sampled_from(["response", "error", "progress", "cancel", "lost"]),
        st.integers(1, 50),
    ),
    max_size=12,
)


@given(ASKS, st.data())
def test_what_is_left_is_what_would_have_been_recorded_without_the_rest(
    asks: list[Ask], data: st.DataObject
) -> None:
    # Two after one another of which nothing says the id cannot be told apart: one that is answered comes between.
    asks = [each for ask in asks for each in (ask, ask._replace(end="response"))]
    kept = data.draw(st.lists(st.booleans(), min_size=len(asks), max_size=len(asks)))
    frames = gateway(asks)
    firsts = [each.seq for each in frames if each.kind == "request"]
    gone = {seq for seq, is_kept in zip(firsts, kept, strict=True) if not is_kept}
    ids = WireIds()
    for each in frames:
        ids.see(each)
    changed = ids.without(gone)
    left = {each.seq for each in frames if each.seq not in gone and each.re not in gone}
    made = list(renumbered([with_ids(each, changed) for each in frames], left))
    expected = gateway([ask for ask, is_kept in zip(asks, kept, strict=True) if is_kept])
    assert len(made) == len(expected)
    for mine, theirs in zip(made, expected, strict=True):
        # What a result says besides is nobody's id.
        assert _without_result(mine) == _without_result(theirs)
        assert (mine.id, mine.re, mine.kind) == (theirs.id, theirs.re, theirs.kind)


def _without_result(each: Frame) -> object:
    body = msgspec.json.decode(each.body)
    body.pop("result", None)
    return body


def test_without_gaps_nothing_changes() -> None:
    frames = gateway([Ask("core", "db", "response", 7), Ask("gateway", "db", "progress", 8)])
    ids = WireIds()
    for each in frames:
        ids.see(each)
    assert ids.without(()) == {}
    assert all(with_ids(each, {}) is each for each in frames)


@pytest.mark.parametrize("given_ids", [(3, 2), (1, 1), (0, 1)])
def test_ids_that_nobody_has_counted_stay(given_ids: tuple[int, int]) -> None:
    ids = WireIds()
    for number, id_ in enumerate(given_ids):
        ids.see(frame(2 * number, b"{}", "request", way="core>", peer="db"))
        ids.see(frame(2 * number + 1, b"{}", "response", way="peer>", peer="db", re=2 * number, id=id_))
    assert ids.without({0}) == {}


def test_only_the_places_of_ids_change_and_all_else_is_spelt_as_it_was() -> None:
    ids = {("db", 5): 4, ("", 5): 3}
    subscription = "io.modelcontextprotocol/subscriptionId"
    for way, kind, method, before, after in (
        (
            "peer>",
            "response",
            None,
            b'{"id":5,"result":{"n":1e0,"id":5}}',
            b'{"id":4,"result":{"n":1e0,"id":5}}',
        ),
        ("core>", "response", None, b'{"id":5,"result":{}}', b'{"id":3,"result":{}}'),
        ("core>", "request", "m", b'{"id":5,"params":{}}', b'{"id":5,"params":{}}'),
        ("peer>", "request", "m", b'{"id":5,"params":{}}', b'{"id":5,"params":{}}'),
        ("peer>", "response", None, b'{"id":"5","result":{}}', b'{"id":"5","result":{}}'),
        (
            ">peer",
            "notification",
            "notifications/cancelled",
            b'{"params":{"requestId":5,"reason":"5"}}',
            b'{"params":{"requestId":4,"reason":"5"}}',
        ),
        (
            "peer>",
            "notification",
            "notifications/cancelled",
            b'{"params":{"requestId":5}}',
            b'{"params":{"requestId":5}}',
        ),
        (
            "peer>",
            "notification",
            "notifications/resources/updated",
            b'{"params":{"_meta":{"%b":5}}}' % subscription.encode(),
            b'{"params":{"_meta":{"%b":4}}}' % subscription.encode(),
        ),
        ("peer>", "notification", "x", b'{"id":5,"params":[5]}', b'{"id":5,"params":[5]}'),
        ("peer>", "raw", None, b'{"id":5}', b'{"id":5}'),
        ("inside", "drop", None, b'{"id":5}', b'{"id":5}'),
    ):
        made = with_ids(frame(0, before, kind, way=way, peer="db", method=method), ids)
        assert bytes(made.body) == after
    late = frame(0, b'{"id":5}', "late", way="peer>", peer="db", id=5)
    assert with_ids(late, ids).id == 4
    named = frame(0, b'{"id":"x"}', "response", way="peer>", peer="db", id="x")
    assert same([with_ids(named, ids)], [named])
