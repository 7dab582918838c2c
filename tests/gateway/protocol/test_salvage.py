"""What is still read of damaged bytes: their own id and no other, and messages that came in one piece."""

from __future__ import annotations

import pytest

from gateway.protocol.salvage import Salvaged, salvage, split
from tests.gateway.protocol.test_jsonrpc import bad


@pytest.mark.parametrize(
    ("data", "salvaged"),
    [
        (b'{"jsonrpc":"2.0","id":3,"result":{"id":7,', Salvaged(3, "answer")),
        (b'{"jsonrpc":"2.0","result":{"id":7,', Salvaged(None, "answer")),
        (b'{"jsonrpc":"2.0","result":{"a":{},"id":7}', Salvaged(None, "answer")),
        (b'{"jsonrpc":"2.0","id":5,"method":"sampling/createMessage","params":{', Salvaged(5, "request")),
        (b'{"jsonrpc":"2.0","id":5,"method":"x","params":{"result":1', Salvaged(5, "request")),
        (b'{"jsonrpc":"2.0","id":5,"id":6,"result":', Salvaged(None, "answer")),
        (b'{"jsonrpc":"2.0","id":5', Salvaged(5, "")),
        (b'{"jsonrpc":"2.0","id":5.5,"result":', Salvaged(None, "answer")),
        (b'{"jsonrpc":"2.0","result":"say \\"id\\":7","id":"b"', Salvaged("b", "answer")),
        (b'warning {"id" : "a" , "error": nope', Salvaged("a", "answer")),
        (b'{"result":"cut in the mid', Salvaged(None, "answer")),
    ],
)
def test_only_an_id_of_the_message_itself_is_salvaged_and_whose_it_is(
    data: bytes, salvaged: Salvaged
) -> None:
    assert salvage(data) == salvaged


def test_two_messages_in_one_line_are_told_apart() -> None:
    one, two = b'{"jsonrpc":"2.0","id":1,"result":"}{"}', b'{"jsonrpc":"2.0","method":"\xc3\xa9"}'

    assert split(one + two) == [one, two]
    assert split(b" " + one + b" \t" + two + b" ") == [one, two]
    assert bad(one + two).reason == "not-json"


@pytest.mark.parametrize("data", [b"banner {}", b"{} []", b"{", b"\xff{}", b"[" * 100_000])
def test_what_is_not_just_objects_is_not_split(data: bytes) -> None:
    assert split(data) == []
