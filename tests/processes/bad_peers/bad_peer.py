"""Stdio MCP servers that misbehave, one fault each: `python bad_peer.py FAULT`.

Faults named in `START` misbehave from the start; those in `CALL` behave for the tool `echo` until the tool
`fault` is called. Environment: BAD_PEER_COUNT sets how many or how much (each fault has its default),
BAD_PEER_PAUSE the seconds between slow bytes. Everything started here ends by itself after BAD_PEER_LIFE
seconds (300), whatever becomes of its test.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

from plain_peer import Message, Peer, encode, result

Id = Any
START: dict[str, Callable[[Peer], None]] = {}
CALL: dict[str, Callable[[Peer, Id], None]] = {}

BOM = b"\xef\xbb\xbf"
BANNER = b"Loading model...\n\x1b[32mready\x1b[0m on port 1234\n\n"
PROGRESS_TOKEN = "bad-peer"


def at_start(function: Callable[[Peer], None]) -> Callable[[Peer], None]:
    START[function.__name__.replace("_", "-")] = function
    return function


def in_call(function: Callable[[Peer, Id], None]) -> Callable[[Peer, Id], None]:
    CALL[function.__name__.replace("_", "-")] = function
    return function


def count(default: int) -> int:
    return int(os.environ.get("BAD_PEER_COUNT", default))


def limit_life() -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(int(os.environ.get("BAD_PEER_LIFE", "300")))


def stubborn() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def sleep_for_ever() -> NoReturn:
    limit_life()
    while True:
        signal.pause()


def die_by(number: int) -> None:
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    signal.pause()


# ---- before and during the handshake


@at_start
def exit_0(peer: Peer) -> None:
    sys.exit(0)


@at_start
def exit_3(peer: Peer) -> None:
    os.write(2, b"starting\nfatal: cannot open the database\n")
    sys.exit(3)


@at_start
def killed_at_start(peer: Peer) -> None:
    die_by(signal.SIGKILL)


@at_start
def segfault_at_start(peer: Peer) -> None:
    die_by(signal.SIGSEGV)


@at_start
def no_handshake(peer: Peer) -> None:
    while peer.read_line() is not None:
        pass


@at_start
def wrong_version(peer: Peer) -> None:
    peer.version = "1999-12-31"


@at_start
def banner(peer: Peer) -> None:
    peer.write(BANNER)


@at_start
def bom(peer: Peer) -> None:
    peer.write(BOM)


@at_start
def stderr_before_handshake(peer: Peer) -> None:
    line = b"W" * 99 + b"\n"
    for _ in range(count(1024 * 1024) // len(line) + 1):
        os.write(2, line)


@at_start
def many_tools(peer: Peer) -> None:
    peer.tools += [{**peer.tools[0], "name": f"tool-{number}"} for number in range(count(10_000))]


@at_start
def exits_idle(peer: Peer) -> None:
    """Serves, then exits two lines after the handshake's last: once it has answered one call."""
    answer = peer.answer

    def answer_and_exit(call: Id, text: str) -> None:
        answer(call, text)
        sys.exit(0)

    peer.answer = answer_and_exit


# ---- framing


@in_call
def garbage_line(peer: Peer, call: Id) -> None:
    peer.write(b"\x00\xff\x13 this is no JSON {]\n")
    peer.answer(call, "after garbage")


@in_call
def garbage_only(peer: Peer, call: Id) -> None:
    peer.write(b"{]\n" * count(10))


@in_call
def invalid_utf8(peer: Peer, call: Id) -> None:
    peer.write(encode(result(call, "MARK")).replace(b"MARK", b"bad \xff\xfe bytes") + b"\n")


@in_call
def truncated_line(peer: Peer, call: Id) -> None:
    line = encode(result(call, "truncated"))
    peer.write(line[: len(line) // 2] + b"\n")


@in_call
def partial_then_stall(peer: Peer, call: Id) -> None:
    line = encode(result(call, "stalled"))
    peer.write(line[: len(line) // 2])
    sleep_for_ever()


@in_call
def partial_then_exit(peer: Peer, call: Id) -> None:
    line = encode(result(call, "cut off"))
    peer.write(line[: len(line) // 2])
    sys.exit(0)


@in_call
def no_final_newline(peer: Peer, call: Id) -> None:
    peer.write(encode(result(call, "no newline")))
    sys.exit(0)


@in_call
def bom_line(peer: Peer, call: Id) -> None:
    peer.write(BOM)
    peer.answer(call, "after BOM")


@in_call
def crlf(peer: Peer, call: Id) -> None:
    peer.write(encode(result(call, "CRLF")) + b"\r\n")


@in_call
def two_in_one_line(peer: Peer, call: Id) -> None:
    note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "one"}}
    peer.write(encode(note) + encode(result(call, "two")) + b"\n")


@in_call
def blank_lines(peer: Peer, call: Id) -> None:
    peer.write(b"\n\n  \t\n\r\n")
    peer.answer(call, "after blanks")


@in_call
def batch(peer: Peer, call: Id) -> None:
    peer.write(b"[" + encode(result(call, "in a batch")) + b"]\n")


@in_call
def huge_line(peer: Peer, call: Id) -> None:
    head, _, tail = encode(result(call, "MARK")).partition(b"MARK")
    peer.write(head)
    left, chunk = count(100 * 1024 * 1024), b"x" * 65536
    while left > 0:
        peer.write(chunk[:left])
        left -= len(chunk)
    peer.write(tail + b"\n")


@in_call
def endless_line(peer: Peer, call: Id) -> None:
    peer.write(encode(result(call, ""))[:-5])
    while True:
        peer.write(b"x" * 65536)


@in_call
def depth_bomb(peer: Peer, call: Id) -> None:
    depth = count(100_000)
    peer.write(b'{"jsonrpc":"2.0","id":%b,"result":' % encode(call) + b"[" * depth + b"]" * depth + b"}\n")


@in_call
def huge_number(peer: Peer, call: Id) -> None:
    number = b"9" * count(1_000_000)
    peer.write(b'{"jsonrpc":"2.0","id":%b,"result":{"content":[],"n":%b}}\n' % (encode(call), number))


@in_call
def not_a_number(peer: Peer, call: Id) -> None:
    peer.write(b'{"jsonrpc":"2.0","id":%b,"result":{"content":[],"n":NaN}}\n' % encode(call))


@in_call
def duplicate_keys(peer: Peer, call: Id) -> None:
    one, two = (encode(result(call, text)["result"]) for text in ("one", "two"))
    peer.write(b'{"jsonrpc":"2.0","id":%b,"id":987654,"result":%b,"result":%b}\n' % (encode(call), one, two))


@in_call
def byte_a_second(peer: Peer, call: Id) -> None:
    pause = float(os.environ.get("BAD_PEER_PAUSE", "1"))
    for byte in encode(result(call, "slow")) + b"\n":
        peer.write(bytes((byte,)))
        time.sleep(pause)


@in_call
def reads_slowly(peer: Peer, call: Id) -> None:
    peer.answer(call, "reading slowly from now on")
    while os.read(0, 1):
        time.sleep(float(os.environ.get("BAD_PEER_PAUSE", "1")))


@in_call
def tiny_writes(peer: Peer, call: Id) -> None:
    for byte in encode(result(call, "x" * count(100_000))) + b"\n":
        os.write(1, bytes((byte,)))


# ---- answers and ids


@in_call
def never_answers(peer: Peer, call: Id) -> None:
    pass


@in_call
def answers_twice(peer: Peer, call: Id) -> None:
    peer.answer(call, "same")
    peer.answer(call, "same")


@in_call
def answers_twice_differently(peer: Peer, call: Id) -> None:
    peer.answer(call, "first")
    peer.answer(call, "second")


@in_call
def wrong_id(peer: Peer, call: Id) -> None:
    peer.answer(call + 100_000 if isinstance(call, int) else f"{call}-not", "to nobody")


@in_call
def id_of_other_type(peer: Peer, call: Id) -> None:
    peer.answer(str(call) if isinstance(call, int) else 0, "wrong type")


@in_call
def float_id(peer: Peer, call: Id) -> None:
    peer.answer(float(call) if isinstance(call, int) else 1.0, "float")


@in_call
def null_id(peer: Peer, call: Id) -> None:
    peer.answer(None, "null")


@in_call
def result_and_error(peer: Peer, call: Id) -> None:
    peer.send({**result(call, "both"), "error": {"code": -32000, "message": "both"}})


@in_call
def neither_result_nor_error(peer: Peer, call: Id) -> None:
    peer.send({"jsonrpc": "2.0", "id": call})


@in_call
def answers_cancelled(peer: Peer, call: Id) -> None:
    peer.on_cancel = lambda cancelled: peer.answer(cancelled, "too late")


@in_call
def answers_late(peer: Peer, call: Id) -> None:
    time.sleep(float(os.environ.get("BAD_PEER_PAUSE", "1")))
    peer.answer(call, "late")


@in_call
def answers_before_asked(peer: Peer, call: Id) -> None:
    # In this order: behind the answer to this call, the early one might come to be on time.
    if isinstance(call, int):
        peer.answer(call + 1, "not asked yet")
    peer.answer(call, "asked")


@in_call
def asks_under_pending_id(peer: Peer, call: Id) -> None:
    """Its own `roots/list` carries the id of the call; the call is answered once the roots have come."""
    peer.on_answer = lambda message: peer.answer(call, "asked and got " + json.dumps(sorted(message)))
    peer.send({"jsonrpc": "2.0", "id": call, "method": "roots/list"})


@in_call
def request_storm(peer: Peer, call: Id) -> None:
    for number in range(count(1000)):
        peer.send({"jsonrpc": "2.0", "id": f"storm-{number}", "method": "roots/list"})
    peer.answer(call, "after the storm")


# ---- floods, and not reading


@in_call
def flood_notifications(peer: Peer, call: Id) -> None:
    flood(peer, {"method": "notifications/tools/list_changed"})
    peer.answer(call, "after the flood")


@in_call
def flood_logs(peer: Peer, call: Id) -> None:
    flood(peer, {"method": "notifications/message", "params": {"level": "info", "data": "noise"}})
    peer.answer(call, "after the flood")


@in_call
def flood_progress(peer: Peer, call: Id) -> None:
    flood(
        peer, {"method": "notifications/progress", "params": {"progressToken": PROGRESS_TOKEN, "progress": 1}}
    )
    peer.answer(call, "after the flood")


def flood(peer: Peer, message: Message) -> None:
    line = encode({"jsonrpc": "2.0", **message}) + b"\n"
    left = count(1_000_000)
    while left > 0:
        peer.write(line * min(left, 500))
        left -= 500


@in_call
def flood_stderr(peer: Peer, call: Id) -> None:
    line = b"E" * 127 + b"\n"
    for _ in range(count(10_000)):
        os.write(2, line)
    peer.answer(call, "after the flood")


@in_call
def stderr_without_newline(peer: Peer, call: Id) -> None:
    left = count(10 * 1024 * 1024)
    while left > 0:
        left -= os.write(2, b"e" * min(left, 65536))
    peer.answer(call, "after the flood")


@in_call
def never_reads(peer: Peer, call: Id) -> None:
    peer.answer(call, "not reading from now on")
    sleep_for_ever()


# ---- the process itself


@in_call
def dies_in_call(peer: Peer, call: Id) -> None:
    os.write(2, b"panic: out of luck\n")
    sys.exit(3)


@in_call
def killed_in_call(peer: Peer, call: Id) -> None:
    die_by(signal.SIGKILL)


@in_call
def segfault_in_call(peer: Peer, call: Id) -> None:
    die_by(signal.SIGSEGV)


@in_call
def stops_itself(peer: Peer, call: Id) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


@in_call
def closes_stdout(peer: Peer, call: Id) -> None:
    os.close(1)
    while peer.read_line() is not None:
        pass
    sleep_for_ever()


@in_call
def closes_stdin(peer: Peer, call: Id) -> None:
    os.close(0)
    peer.answer(call, "my stdin is closed")
    sleep_for_ever()


@in_call
def ignores_eof_and_term(peer: Peer, call: Id) -> None:
    stubborn()
    peer.answer(call, "{}")
    while peer.read_line() is not None:
        pass
    sleep_for_ever()


@in_call
def grandchild(peer: Peer, call: Id) -> None:
    peer.answer(call, json.dumps({"grandchild": start_child()}))


@in_call
def setsid_grandchild(peer: Peer, call: Id) -> None:
    peer.answer(call, json.dumps({"setsid": start_child(session=True)}))


@in_call
def daemon(peer: Peer, call: Id) -> None:
    peer.answer(call, json.dumps({"daemon": start_daemon()}))


@in_call
def whole_family(peer: Peer, call: Id) -> None:
    """Ignores end of input and SIGTERM, and so do a grandchild, one with its own session, and a daemon."""
    stubborn()
    family = {"grandchild": start_child(), "setsid": start_child(session=True), "daemon": start_daemon()}
    peer.answer(call, json.dumps({**family, "peer": os.getpid()}))
    while peer.read_line() is not None:
        pass
    sleep_for_ever()


@in_call
def exits_before_grandchild(peer: Peer, call: Id) -> None:
    """Exits in the call while a grandchild holds its stdout and stderr open."""
    peer.answer(call, json.dumps({"grandchild": start_child(keep_pipes=True)}))
    sys.exit(0)


@in_call
def memory_hog(peer: Peer, call: Id) -> None:
    hoard = [b"m" * (1024 * 1024) for _ in range(count(2048))]
    peer.answer(call, f"took {len(hoard)} MiB")


@in_call
def cpu_spin(peer: Peer, call: Id) -> None:
    while True:
        pass


@in_call
def fork_bomb(peer: Peer, call: Id) -> None:
    """Doubles until BAD_PEER_COUNT processes (512) are there, which then sleep: bounded by itself."""
    doublings = count(512).bit_length() - 1
    for _ in range(doublings):
        if os.fork() == 0:
            limit_life()
        time.sleep(0.05)
    sleep_for_ever()


def start_child(*, session: bool = False, keep_pipes: bool = False) -> int:
    """Start a stubborn child; returns its pid once it is one."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        if session:
            os.setsid()
        become_stubborn(writer, keep_pipes=keep_pipes)
    return pid_from(reader, writer)


def start_daemon() -> int:
    """Start a stubborn process that is not our child and in a session of its own; returns its pid."""
    reader, writer = os.pipe()
    middle = os.fork()
    if middle == 0:
        os.setsid()
        if os.fork() == 0:
            become_stubborn(writer)
        os._exit(0)
    os.waitpid(middle, 0)
    return pid_from(reader, writer)


def become_stubborn(ready: int, *, keep_pipes: bool = False) -> NoReturn:
    stubborn()
    for descriptor in (0,) if keep_pipes else (0, 1, 2):
        os.close(descriptor)
    os.write(ready, str(os.getpid()).encode())
    os.close(ready)
    sleep_for_ever()


def pid_from(reader: int, writer: int) -> int:
    os.close(writer)
    pid = int(os.read(reader, 32))
    os.close(reader)
    return pid


def main() -> None:
    fault = sys.argv[1] if len(sys.argv) > 1 else ""
    if fault not in START and fault not in CALL:
        sys.exit(f"usage: bad_peer.py FAULT, one of: {' '.join(sorted({*START, *CALL}))}")
    limit_life()
    peer = Peer(CALL.get(fault, lambda peer, call: peer.answer(call, "no fault is set for calls")))
    if fault in START:
        START[fault](peer)
    peer.serve()


if __name__ == "__main__":
    main()
