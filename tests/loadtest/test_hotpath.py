"""A fixed script of calls through links, exchange and recorder leaves the same bytes, written down once."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import os
import re
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.protocol.mcp import Era
from loadtest import hotpath, hotpath_rig
from loadtest.hotpath_rig import Rig
from recordings import segment
from recordings.gate import Strength
from recordings.reader import open_recording

GOLDEN = Path(__file__).parent / "golden" / "plain_calls.txt"
LONGEST = 600
CALLS = 40
"""After how many calls the garbage collector is asked for what they have left."""
TEXT = b'{"content":[{"type":"text","text":"ok"}]}'
_TIMES = re.compile(rb'"(at|wall)":\d+,')
_CRC = re.compile(rb',"crc":\d+}$')


def asked(id_: bytes, params: bytes = b'{"name":"echo","arguments":{"text":"hi"}}') -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"method":"tools/call","params":%b}' % (id_, params)


def form_of(result: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":%%d,"result":%b}' % result


def answered(id_: int) -> bytes:
    return form_of(TEXT) % id_


def lines(*messages: bytes) -> bytes:
    return b"\n".join((*messages, b""))


def script() -> Iterator[tuple[str, bytes]]:
    """Who says what, in which pieces. The gateway's own ids begin with 2: 1 was the handshake's."""
    ours = iter(range(2, 10_000))
    plain = [
        b"1",
        b"0",
        b"-7",
        b"9007199254740993",
        b"9223372036854775807",
        b"18446744073709551615",
        b'"a"',
        b'"\\u00e9"',
    ]
    for id_ in plain:
        yield "core", lines(asked(id_))
        yield "peer", lines(answered(next(ours)))
    for params in (
        b'{"name":"a\\"b\\u0041","arguments":{}}',
        b'{"name":"echo","arguments":{"name":"other"}}',
        b'{"arguments":{"name":"other"},"name":"last"}',
        b'{"name":"first","name":"second"}',
        b'{ "name" : "spaced" , "arguments" : { "a" : [ 1 , 2 ] } }',
        b'{"name":"\xc3\xa9t\xc3\xa9","arguments":{"text":"\xe2\x82\xac"}}',
        b'{"arguments":{"text":"no name"}}',
        b'{"name":"echo","arguments":{"password":"%b"}}' % hotpath_rig.SECRET.encode(),
        b'{"name":"echo","arguments":{"api_key":"sk-1234567890abcdefghij1234"}}',
        b'{"name":"%b","arguments":{}}' % hotpath_rig.SECRET.encode(),
        b'{"name":"echo","arguments":{"text":"%b"}}' % (b"z" * 20_000),
        b'{"name":"echo","arguments":{"text":"%b"}}' % (b"z" * 40_000),
        b'{"name":"echo","arguments":%b}' % (b"[" * 100 + b"]" * 100),
        b'{"name":"echo","_meta":{"progressToken":5}}',
        b'{"name":"echo","_meta":{"io.tieline/lane":"turn1/tool2"}}',
    ):
        yield "core", lines(asked(b"10", params))
        yield "peer", lines(answered(next(ours)))
    refused = [
        asked(b"11", b'{"name":"echo","arguments":%b}' % (b"[" * 200 + b"]" * 200)),
        asked(b"null"),
        asked(b"1.5"),
        b'{"jsonrpc":"2.0","id":12,"id":13,"method":"tools/call","params":{"name":"echo"}}',
        b'{"jsonrpc":"2.0","id":12,"method":"tools/call","method":"tools/call","params":{"name":"echo"}}',
        b'{"jsonrpc":"2.0","id":12,"method":"tools/call","params":{"name":"echo"}',
        b'{"jsonrpc":"2.0","id":12,"method":"tools/call","params":{"name":"\xff"}}',
        b'{"jsonrpc":"2.0","id":12,"method":"tools/call","params":{"name":"echo"},"result":{}}',
    ]
    for message in refused:
        yield "core", lines(message)
    odd = [
        asked(b"11", b"null"),
        asked(b"11", b"[1]"),
        asked(b"11", b'{"name":7}'),
        b'{"jsonrpc": "2.0", "id": 20, "method": "tools/call", "params": {"name": "echo", "arguments": {}}}',
        b'{"id":20,"params":{"name":"echo"},"method":"tools/call","jsonrpc":"2.0"}',
        b'{"jsonrpc":"2.0","id":20,"method":"tools/call","params":{"name":"echo"},"extra":true}',
        b'{"jsonrpc":"1.0","id":20,"method":"tools/call","params":{"name":"echo"}}',
        b'{"id":20,"method":"tools/call","params":{"name":"echo"}}',
        b'{"jsonrpc":"2.0","id":20,"method":"tools\\/call","params":{"name":"echo"}}',
        b'  {"jsonrpc":"2.0","id":20,"method":"tools/call","params":{"name":"echo"}}\r',
        b'{"jsonrpc":"2.0","id":20,"method":"tools/call"}',
    ]
    for message in odd:
        yield "core", lines(message)
        yield "peer", lines(answered(next(ours)))
    yield from answers(ours)
    yield from crowds(ours)


def answers(ours: Iterator[int]) -> Iterator[tuple[str, bytes]]:
    """What a peer may say to a call."""
    for form in (
        b'{"jsonrpc":"2.0","id":%d,"error":{"code":-32602,"message":"no"}}',
        b'{"jsonrpc": "2.0", "id": %d, "result": {"content": []}}',
        b'{"result":{"content":[]},"id":%d,"jsonrpc":"2.0"}',
        b'{"jsonrpc":"2.0","id":%d,"result":{"content":[]},"more":[1]}',
        b'{"id":%d,"result":{}}',
        form_of(b'{"task":{"taskId":"t"}}'),
        form_of(b'{"structuredContent":{"token":"%b"}}' % hotpath_rig.SECRET.encode()),
        form_of(b'{"content":[{"type":"text","text":"%b"}]}' % (b"y" * 40_000)),
        form_of(b'{"a":%b}' % (b"[" * 110 + b"]" * 110)),
        form_of(b'{"a":%b}' % (b"9" * 9000)),
        form_of(b"[]"),
        form_of(b"null"),
        b'{"jsonrpc":"2.0","id":%d,"result":{},"error":{}}',
        b'{"jsonrpc":"2.0","id":%d,"result":{"a":1},"result":{"a":2}}',
        b'{"jsonrpc":"2.0","id":%d,"result":{"a":}}',
        b'{"jsonrpc":"2.0","id":"%d","result":{}}',
    ):
        yield "core", lines(asked(b"30"))
        yield "peer", lines(form % next(ours))
        yield "core", lines(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":30}}')
    number = next(ours)
    yield "core", lines(asked(b"31"))
    yield (
        "peer",
        lines(b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}'),
    )
    yield "core", lines(asked(b"31"))
    yield "peer", lines(answered(number), answered(number))
    number = next(ours)
    yield "core", lines(asked(b"32"))
    yield (
        "core",
        lines(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":32,"reason":"r"}}'),
    )
    yield "peer", lines(answered(number))
    yield "peer", lines(answered(9999))


def crowds(ours: Iterator[int]) -> Iterator[tuple[str, bytes]]:
    """Many at once, in pieces, and the answers in another order."""
    numbers = [next(ours) for _ in range(30)]
    yield "core", lines(*(asked(b"%d" % n) for n in range(100, 130)))
    yield "peer", lines(*map(answered, reversed(numbers)))
    pair = [next(ours), next(ours)]
    data = lines(asked(b"200"), asked(b"201"))
    for start in range(0, len(data), 41):
        yield "core", data[start : start + 41]
    yield "peer", b"\n\r\n" + lines(answered(pair[1]) + b"\r")
    yield "peer", answered(pair[0])[:20]
    yield "peer", answered(pair[0])[20:] + b"\n"
    mixed = [next(ours), next(ours)]
    ping = b'{"jsonrpc":"2.0","id":300,"method":"ping"}'
    yield "core", lines(asked(b"301"), ping, asked(b"302"), b"nonsense", asked(b"301"))
    yield "peer", lines(answered(mixed[1]), b"nonsense", answered(mixed[0]))


def short(line: bytes) -> str:
    text = line if len(line) <= LONGEST else b"%b... %d %b" % (
        line[:100], len(line), hashlib.sha256(line).hexdigest().encode()
    )  # fmt: skip
    return text.decode("utf-8", "backslashreplace")


async def played(directory: Path) -> list[str]:
    """What came of the script: what each side was told, step by step, then the frames without their times."""
    rig = Rig(directory)
    await rig.greet()
    told: list[str] = []
    for who, data in script():
        (rig.core if who == "core" else rig.peer).put(data)
        await rig.settle()
        told += [f">core {short(line)}" for line in rig.core.take().splitlines()]
        told += [f">peer {short(line)}" for line in rig.peer.take().splitlines()]
    await rig.close()
    for line in (directory / "frames.jsonl").read_bytes().splitlines():
        if b'"kind":"block"' not in line:
            told.append(f"frame {short(_CRC.sub(b'}', _TIMES.sub(b'', line)))}")
    told += [f"blob {path.name}" for path in sorted((directory / "blobs").rglob("*")) if path.is_file()]
    return told


@pytest.mark.parametrize("block_ns", [0, segment.BLOCK_NS, 1 << 60], ids=["every", "usual", "no"])
def test_a_fixed_script_of_calls_leaves_the_bytes_and_frames_that_were_written_down(
    block_ns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether blocks are closed often, as on a busy machine, or never."""
    monkeypatch.setattr(segment, "BLOCK_NS", block_ns)
    found = asyncio.run(played(tmp_path / "r"))
    if os.environ.get("TIELINE_WRITE_GOLDEN"):
        GOLDEN.write_text("\n".join(found) + "\n", encoding="utf-8")
    assert found == GOLDEN.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_what_is_counted_of_plain_calls_is_the_straight_way_once_each(era: Era) -> None:
    counts = asyncio.run(hotpath.counted(8, 1, 300, core=era, peer=era))
    assert counts.entered["straight.py: goes_straight"] == counts.entered["straight.py: comes_straight"] == 8
    assert counts.codes["straight.py: goes_straight"] > counts.calls["straight.py: goes_straight"] > 8


def test_calls_that_are_not_recorded_are_counted_too() -> None:
    counts = asyncio.run(hotpath.counted(8, 1, 300, recorded=False))
    assert counts.entered["straight.py: goes_straight"] == counts.entered["straight.py: comes_straight"] == 8
    assert counts.entered["null_tap.py: NullTap.called"] == 8
    assert not counts.entered["null_tap.py: NullTap.answered"], "nothing becomes of it"
    assert not counts.entered["null_tap.py: NullTap.record"]
    assert not counts.entered["straight_tap.py: StraightTap.called"]


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_plain_calls_that_come_in_one_piece_go_together_and_so_do_their_answers(era: Era) -> None:
    counts = asyncio.run(hotpath.counted(32, 8, 300, core=era, peer=era))
    assert counts.entered["straight.py: go_together"] == counts.entered["straight.py: come_together"] == 4
    assert counts.entered["quick_appending.py: QuickAppending.append_together"] == 8
    assert not counts.entered["straight.py: goes_straight"]
    assert not counts.entered["straight.py: comes_straight"]


@pytest.mark.parametrize("answer", [b"{}", hotpath.CHANGED])
def test_what_is_counted_of_calls_that_a_hook_is_asked_about_is_the_straight_way_once_each(
    answer: bytes,
) -> None:
    counts = asyncio.run(hotpath.counted(8, 1, 300, hooks=["tool_call"], answer=answer))
    for name in (
        "straight_asked.py: Way.asks",
        "straight_asked.py: Asked.comes",
        "straight.py: comes_straight",
    ):
        assert counts.entered[name] == 8, name
    assert counts.entered["quick_appending.py: QuickAppending.append_both"] == 16
    assert not counts.entered["hook_run.py: Run._advance"]


def test_what_is_counted_of_calls_that_several_hooks_are_asked_about_is_the_straight_way_for_each() -> None:
    counts = asyncio.run(hotpath.counted(8, 1, 300, hooks=["tool_call"] * 3))
    assert counts.entered["straight_asked.py: Way.asks"] == 8
    assert counts.entered["straight_asked.py: Way.asks_too"] == 16
    assert counts.entered["straight_asked.py: Asked.comes"] == 24
    assert not counts.entered["hook_run.py: Run._advance"]


@pytest.mark.parametrize("answer", [b"{}", hotpath.CHANGED])
def test_calls_of_one_piece_that_a_hook_is_asked_about_go_together_and_so_do_its_answers(
    answer: bytes,
) -> None:
    counts = asyncio.run(hotpath.counted(32, 8, 300, hooks=["tool_call"], answer=answer))
    assert counts.entered["straight_crowd.py: ask_together"] == 4
    assert counts.entered["straight_crowd.py: decide_together"] == 4
    assert counts.entered["quick_appending.py: QuickAppending.append_together"] == 12
    assert not counts.entered["straight_asked.py: Way.asks"]
    assert not counts.entered["straight_asked.py: Asked.comes"]


def test_a_call_that_a_hook_is_asked_about_leaves_nothing_for_the_garbage_collector(tmp_path: Path) -> None:
    async def answer(rig: Rig, number: int) -> None:
        rig.extensions[0].put(hotpath.ANSWER % (number, b"{}" if number % 2 else hotpath.CHANGED))
        await rig.settle()
        rig.peer.put(answered(number + 2) + b"\n")
        await rig.settle()

    assert left_by_calls(lambda: Rig(tmp_path / "recording", hooks=["tool_call"]), answer) < CALLS


@pytest.mark.parametrize("http", [False, True])
def test_a_plain_call_leaves_nothing_for_the_garbage_collector(http: bool, tmp_path: Path) -> None:
    async def answer(rig: Rig, number: int) -> None:
        rig.peer.put(answered(number + 1) + b"\n")
        await rig.settle()

    assert left_by_calls(lambda: Rig(tmp_path / "recording"), answer, http=http) < CALLS


def left_by_calls(
    make: Callable[[], Rig], answer: Callable[[Rig, int], Coroutine[Any, Any, None]], *, http: bool = False
) -> int:
    """How many objects calls leave to the collector. The least of several times so many: what is made once, and what
    threads of other tests leave behind, is in one of them."""

    async def main() -> int:
        rig = make()
        if http:
            await rig.serve_http()
        await rig.greet()
        left: list[int] = []
        for number in range(1, 3 * CALLS + 1):
            rig.core.put(asked(b"%d" % number) + b"\n")
            await rig.settle()
            await answer(rig, number)
            assert rig.core.take().count(b"\n") == 1
            if number % CALLS == 0:
                left.append(gc.collect())
        await rig.close()
        return min(left)

    gc.disable()
    try:
        return asyncio.run(main())
    finally:
        gc.enable()


def test_calls_over_http_are_counted_too() -> None:
    counts = asyncio.run(hotpath.counted(8, 1, 300, http=True))
    assert (
        counts.entered["straight.py: goes_straight"]
        == counts.entered["http_plain.py: PlainProtocol.answer"]
        == 8
    )


@pytest.mark.parametrize("text", [b"x" * 40_000, b"x" * 8192 + b"\xc3\xa9", b"\\n" * 9000])
def test_long_calls_and_their_answers_pass_as_they_are(text: bytes, tmp_path: Path) -> None:
    params = b'{"arguments":{"text":"%b"},"name":"echo"}' % text
    result = b'{"content":[{"type":"text","text":"%b"}]}' % text

    async def main() -> None:
        rig = Rig(tmp_path / "recording")
        await rig.greet()
        for number in (7, 8):
            rig.core.put(asked(b"%d" % number, params) + b"\n")
            await rig.settle()
            assert rig.peer.take() == asked(b"%d" % (number - 5), params) + b"\n"
            rig.peer.put(form_of(result) % (number - 5) + b"\n")
            await rig.settle()
            assert rig.core.take() == form_of(result) % number + b"\n"
        await rig.close()

    asyncio.run(main())
    recording = open_recording(tmp_path / "recording")
    bodies = [bytes(recording.body(frame)) for frame in recording if frame.method == "tools/call"]
    assert bodies == [
        body for number in (7, 8) for body in (asked(b"%d" % number, params), form_of(result) % (number - 5))
    ]


def test_a_call_past_fifty_peers_goes_straight_and_takes_no_more_than_one_past_two() -> None:
    found: list[int] = []
    for peers, is_prefixed in ((2, False), (50, False), (2, True), (50, True)):
        tools, names = hotpath.offered(peers, is_prefixed=is_prefixed)
        counts = asyncio.run(hotpath.counted(8, 1, 300, tools=tools, called=names[:1]))
        assert (
            counts.entered["straight.py: goes_straight"] == counts.entered["straight.py: comes_straight"] == 8
        )
        assert not counts.entered["session.py: Session.submit"]
        ways = ("straight.py: goes_straight", "straight.py: _of_several")
        found.append(sum(counts.codes[way] for way in ways))
    assert found[0] == found[1] < found[2] == found[3]


def test_calls_of_one_piece_for_several_peers_go_together() -> None:
    tools, names = hotpath.offered(2, is_prefixed=False)
    counts = asyncio.run(hotpath.counted(32, 8, 300, tools=tools, called=names))
    assert counts.entered["straight.py: go_together"] == 4
    assert counts.entered["straight.py: come_together"] == 8, "each peer answers its own"
    assert not counts.entered["straight.py: goes_straight"]


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("gate", ["lockstep", "causal", "free"])
def test_what_is_counted_of_a_replayed_call_is_its_straight_way_once(gate: Strength, era: Era) -> None:
    counts = asyncio.run(hotpath.counted_again(8, 1, 300, gate, core=era, peer=era))
    assert counts.entered["straight.py: StraightPlay.answers_one"] == 8
    assert not counts.entered["playing.py: Playing._pump"]


@pytest.mark.parametrize("as_recorded", [False, True])
def test_replayed_calls_that_come_in_one_piece_are_answered_together(as_recorded: bool) -> None:
    counts = asyncio.run(hotpath.counted_again(32, 8, 300, as_recorded=as_recorded, distinct=True))
    assert counts.entered["straight.py: StraightPlay._send"] == 4
    assert not counts.entered["playing.py: Playing._pump"]


def test_what_is_made_ready_for_calls_to_come_is_told_apart() -> None:
    counts = asyncio.run(hotpath.counted_again(16, 1, 300))
    assert 0 < counts.ahead < counts.codes.total() / 2
    assert counts.ahead > counts.codes[hotpath.LOOKING_AHEAD]
    assert not asyncio.run(hotpath.counted(8, 1, 300)).ahead
