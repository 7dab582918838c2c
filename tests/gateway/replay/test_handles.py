"""What live services have made up anew is brought back to them, once and nowhere else."""

from __future__ import annotations

import pytest

from gateway.replay.handles import Handles


def sent(body: str, *pairs: tuple[str, str]) -> str:
    """What a recorded message becomes after answers that hold other values than recorded."""
    handles = Handles()
    for recorded, live in pairs:
        handles.learn(recorded.encode(), live.encode())
    return handles.applied(body.encode()).decode()


def test_cursors_that_have_moved_on_by_one_are_not_moved_on_twice() -> None:
    pairs = [('{"nextCursor":"2"}', '{"nextCursor":"3"}'), ('{"nextCursor":"3"}', '{"nextCursor":"4"}')]
    assert sent('{"id":1,"params":{"cursor":"2"}}', *pairs) == '{"id":1,"params":{"cursor":"3"}}'


@pytest.mark.parametrize("id_", ['"7"', "7"])
def test_a_message_keeps_its_id_whatever_a_service_calls_by_the_same_name(id_: str) -> None:
    body = f'{{"jsonrpc":"2.0","id":{id_},"method":"m","params":{{"of":"7"}}}}'
    assert sent(body, ('{"id":"7"}', '{"id":"8"}')) == body.replace('"of":"7"', '"of":"8"')


def test_a_long_handle_is_found_inside_of_text_too() -> None:
    one, other = "a" * 20, "b" * 20
    pair = f'{{"taskId":"{one}"}}', f'{{"taskId":"{other}"}}'
    assert sent(f'{{"params":{{"text":"see {one}!"}}}}', pair) == f'{{"params":{{"text":"see {other}!"}}}}'


def test_neither_the_envelope_of_a_message_nor_a_members_name_is_a_value_of_a_service() -> None:
    pairs = [
        ('{"id":"tools/call"}', '{"id":"x"}'),
        ('{"id":"2.0"}', '{"id":"2.1"}'),
        ('{"id":"a"}', '{"id":"b"}'),
    ]
    body = '{"jsonrpc":"2.0","method":"tools/call","params":{"a":"a","b" : ["tools/call","2.0"]}}'
    expected = '{"jsonrpc":"2.0","method":"tools/call","params":{"a":"b","b" : ["x","2.1"]}}'
    assert sent(body, *pairs) == expected


def test_a_long_handle_is_found_in_a_members_name_too() -> None:
    one, other = "a" * 20, "b" * 20
    pair = f'{{"taskId":"{one}"}}', f'{{"taskId":"{other}"}}'
    assert sent(f'{{"params":{{"{one}" :1}}}}', pair) == f'{{"params":{{"{other}" :1}}}}'
