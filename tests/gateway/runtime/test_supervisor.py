"""A peer's process, with real processes: how it starts, what is told of it, and that nothing of it stays."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import threading
from pathlib import Path

import pytest

from gateway.runtime.keeping import keeper_works
from gateway.runtime.processes import MARK, Owner, every_process, read_stat
from gateway.runtime.spawning import PeerSpec, ProcessLimits
from gateway.runtime.supervisor import PeerProcess, stop_all
from tests.gateway.runtime.process_kit import (
    PATIENCE_S,
    Listener,
    bad_peer,
    bearers,
    both_ways,
    children_of_ours,
    end_of,
    is_alive,
    open_descriptors,
    python,
    run,
    spec,
    talking,
    until,
)

pytestmark = pytest.mark.skipif(not keeper_works(), reason="needs Linux with /proc")


@both_ways
def test_bytes_pass_between_us_and_the_peer_untouched(keeper: bool) -> None:
    async def main() -> None:
        payload = bytes(range(256)) * 100
        process = await PeerProcess.start(spec("/bin/cat", keeper=keeper), Listener())
        read_end, write_end = process.take_pipes()
        os.write(write_end, payload)
        os.close(write_end)
        got = b""
        while len(got) < len(payload):
            await until(lambda: readable(read_end))
            got += os.read(read_end, 65536)
        assert got == payload
        assert (await end_of(process)).code == 0
        assert os.read(read_end, 1) == b""
        os.close(read_end)

    run(main())


def readable(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], 0)[0])


def test_what_a_quick_one_said_is_still_there_however_late_its_pipes_are_taken() -> None:
    async def main() -> None:
        process = await PeerProcess.start(spec("/bin/echo", "last words"), Listener())
        await asyncio.wait_for(process.wait_gone(), PATIENCE_S)
        read_end, write_end = process.take_pipes()
        assert os.read(read_end, 100) == b"last words\n"
        os.close(read_end)
        os.close(write_end)

    run(main())


@both_ways
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("raise SystemExit(0)", "exited with code 0"),
        ("raise SystemExit(3)", "exited with code 3"),
        ("import os; os.kill(os.getpid(), 9)", "was ended by SIGKILL"),
        ("import os; os.kill(os.getpid(), 11)", "was ended by SIGSEGV"),
        ("import os; os.abort()", "was ended by SIGABRT"),
    ],
)
def test_the_way_it_ended_is_told_with_its_last_words(keeper: bool, code: str, expected: str) -> None:
    async def main() -> None:
        listener = Listener()
        words = "import os; os.write(2, b'one\\nlast \\x1b[31mwords'); "
        process = await PeerProcess.start(spec(*python(words + code), keeper=keeper), listener)
        how = await end_of(process)
        assert str(how) == expected
        assert how.stderr_tail == b"one\nlast \x1b[31mwords"
        assert how.last_words() == "one\nlast \\x1b[31mwords"
        assert listener.exits == [how]
        assert [line.data for line in listener.lines] == [b"one", b"last \x1b[31mwords"]
        assert bearers(process.mark) == []

    run(main())


@both_ways
def test_it_gets_exactly_the_environment_it_was_given_and_the_mark(keeper: bool) -> None:
    async def main() -> None:
        odd = {"EMPTY": "", "ODD": "a=b \n ü", "PYTHONHOME": "/nonsense"}
        given = {"PATH": os.environ["PATH"], **odd}
        command = ("/bin/cat", "/proc/self/environ")
        peer = PeerSpec(command=command, environment=given, keeper=keeper)
        process = await PeerProcess.start(peer, Listener())
        read_end, write_end = process.take_pipes()
        await end_of(process)
        block = os.read(read_end, 65536)
        os.close(read_end)
        os.close(write_end)
        got = dict(entry.split("=", 1) for entry in block.decode().split("\0") if entry)
        assert got == {**given, MARK: process.mark}

    run(main())


@both_ways
def test_it_has_a_session_of_its_own_and_default_signals_and_three_descriptors(
    keeper: bool,
) -> None:
    code = (
        "import os, json, signal\n"
        "status = open('/proc/self/status').read()\n"
        "field = lambda name: int(status.split(name + ':')[1].split()[0], 16)\n"
        "fds = sorted(int(n) for n in os.listdir('/proc/self/fd'))[:-1]\n"
        # Python itself ignores SIGPIPE and SIGXFSZ; signals from 32 on belong to the C library.
        "print(json.dumps([os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid(), field('SigBlk'),\n"
        "  field('SigIgn') & 0x3fffffff & ~(1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1),\n"
        "  fds, os.getcwd()]))"
    )
    is_nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN

    async def main() -> None:
        process = await PeerProcess.start(spec(*python(code), keeper=keeper, directory="/usr"), Listener())
        read_end, write_end = process.take_pipes()
        await end_of(process)
        text = os.read(read_end, 65536)
        os.close(read_end)
        os.close(write_end)
        assert process.exit is not None
        assert process.exit.code == 0, process.exit
        # Without a keeper, what the gateway was started to ignore (`nohup`) is ignored by its servers too.
        ignored = 0 if keeper else 1 << signal.SIGHUP - 1 if is_nohup else 0
        assert json.loads(text) == [True, True, 0, ignored, [0, 1, 2], "/usr"]

    run(main())


@pytest.mark.parametrize("keeper", [True, False], ids=["kept", "bare"])
def test_sigpipe_is_not_ignored_in_the_peer(keeper: bool) -> None:
    async def main() -> None:
        process = await PeerProcess.start(
            spec("/bin/sh", "-c", "kill -PIPE $$; exit 0", keeper=keeper), Listener()
        )
        assert (await end_of(process)).signal == "SIGPIPE"

    run(main())


class TestStopping:
    """The sequence: stdin, SIGTERM, SIGKILL; whatever the tree is made of, nothing of it stays."""

    @both_ways
    def test_one_that_heeds_the_end_of_its_input_ends_by_it(self, keeper: bool) -> None:
        async def main() -> None:
            process = await PeerProcess.start(spec("/bin/cat", keeper=keeper, grace_s=PATIENCE_S), Listener())
            report = await process.stop()
            assert (report.stage, report.left) == ("stdin", ())
            assert report.exit is not None
            assert report.exit.code == 0
            assert (await process.stop()) == report

        run(main())

    @both_ways
    def test_one_that_ignores_the_end_of_its_input_ends_by_sigterm(self, keeper: bool) -> None:
        async def main() -> None:
            process = await PeerProcess.start(
                spec("/bin/sleep", "300", keeper=keeper, grace_s=0.1), Listener()
            )
            report = await process.stop()
            assert report.stage == "term"
            assert report.exit is not None
            assert report.exit.signal == "SIGTERM"
            assert bearers(process.mark) == []

        run(main())

    @both_ways
    def test_a_stopped_one_ends_as_well(self, keeper: bool) -> None:
        async def main() -> None:
            async with talking(spec(*bad_peer("stops-itself"), keeper=keeper, grace_s=0.2)) as talk:
                await talk.ask("initialize")
                talk.send("tools/call", {"name": "fault"}, call=2)
                await until(lambda: state_of(talk.process.pid) == "T")
                report = await talk.process.stop()
                assert report.left == ()
                assert not is_alive(talk.process.pid)

        run(main())

    @both_ways
    @pytest.mark.parametrize(
        "fault", ["ignores-eof-and-term", "grandchild", "setsid-grandchild", "daemon", "whole-family"]
    )
    def test_nothing_of_a_stubborn_family_stays(self, keeper: bool, fault: str) -> None:
        async def main() -> None:
            async with talking(spec(*bad_peer(fault), keeper=keeper, grace_s=0.2)) as talk:
                await talk.ask("initialize")
                family: dict[str, int] = json.loads(await talk.call_tool("fault"))
                assert all(map(is_alive, family.values()))
                report = await talk.process.stop()
                assert report.left == ()
                assert not any(map(is_alive, [*family.values(), talk.process.pid]))
                assert bearers(talk.process.mark) == []

        run(main())

    def test_a_daemon_that_hides_by_its_environment_is_found_by_its_keeper(self) -> None:
        code = (
            "import os, time\n"
            "if os.fork() == 0:\n"
            "    os.setsid()\n"
            "    if os.fork() == 0:\n"
            "        os.execve('/bin/sleep', ['sleep', '300'], {})\n"
            "    os._exit(0)\n"
            "os.wait()\n"
            "os.read(0, 1)\n"
        )

        async def main() -> None:
            process = await PeerProcess.start(spec(*python(code)), Listener())
            daemon = await until(lambda: child_named(process.keeper_pid or 0, "sleep"), "the daemon")
            report = await process.stop()
            assert report.left == ()
            assert not is_alive(daemon)

        run(main())

    @both_ways
    def test_a_grandchild_that_holds_the_pipes_ends_soon_after_its_parent(self, keeper: bool) -> None:
        async def main() -> None:
            listener = Listener()
            async with talking(spec(*bad_peer("exits-before-grandchild"), keeper=keeper), listener) as talk:
                await talk.ask("initialize")
                pid: int = json.loads(await talk.call_tool("fault"))["grandchild"]
                assert (await asyncio.wait_for(talk.process.wait(), PATIENCE_S)).code == 0
                await asyncio.wait_for(talk.process.wait_gone(), PATIENCE_S)
                assert not is_alive(pid)
                await until(lambda: talk.ended, "the end of stdout")

        run(main())

    @both_ways
    @pytest.mark.parametrize("wrapper", ["shell", "launcher"])
    def test_what_a_wrapper_starts_ends_with_it(self, keeper: bool, wrapper: str, tmp_path: Path) -> None:
        shell = ("/bin/sh", "-c", "/bin/sleep 300 & /bin/sleep 300; true")
        code = (
            "import subprocess, signal; signal.signal(signal.SIGTERM, lambda *_: None)\n"
            "while True: subprocess.run(['/bin/sleep', '300'])"
        )
        command = shell if wrapper == "shell" else python(code)

        async def main() -> None:
            process = await PeerProcess.start(spec(*command, keeper=keeper, grace_s=0.2), Listener())
            await until(lambda: len(bearers(process.mark)) >= (4 if wrapper == "shell" else 3) - (not keeper))
            report = await process.stop()
            assert report.left == ()
            assert bearers(process.mark) == []

        run(main())

    def test_several_stop_side_by_side(self) -> None:
        async def main() -> None:
            stubborn = spec(
                *python(
                    "import signal; signal.signal(15, signal.SIG_IGN); print(flush=True); signal.pause()"
                ),
                grace_s=0.5,
            )
            processes = [await PeerProcess.start(stubborn, Listener()) for _ in range(8)]
            pipes = [process.take_pipes() for process in processes]
            await until(lambda: all(readable(read_end) for read_end, _ in pipes), "their signal handlers")
            reports = await stop_all(processes)
            assert [report.stage for report in reports.values()] == ["kill"] * 8
            assert all(bearers(process.mark) == [] for process in processes)
            for end in (end for pair in pipes for end in pair):
                os.close(end)

        run(main())

    def test_the_bound_of_a_common_stop_holds_whatever_the_grace_of_each(self) -> None:
        async def main() -> None:
            patient = spec("/bin/sleep", "300", grace_s=600)
            processes = [await PeerProcess.start(patient, Listener()) for _ in range(3)]
            reports = await asyncio.wait_for(stop_all(processes, bound_s=0.1), PATIENCE_S)
            assert [report.stage for report in reports.values()] == ["kill"] * 3
            for process in processes:
                await end_of(process)

        run(main())

    def test_being_cancelled_does_not_halt_a_stop(self) -> None:
        async def main() -> None:
            process = await PeerProcess.start(spec("/bin/sleep", "300", grace_s=0.2), Listener())
            stop = asyncio.ensure_future(process.stop())
            await asyncio.sleep(0)
            stop.cancel()
            await end_of(process)
            assert (await process.stop()).stage == "term"

        run(main())

    @both_ways
    def test_fifty_lives_leave_no_zombie_no_descriptor_and_no_thread(self, keeper: bool) -> None:
        async def main() -> None:
            before = open_descriptors()
            others = children_of_ours()
            threads = threading.active_count()
            for _ in range(5):
                patient = spec("/bin/cat", keeper=keeper, grace_s=PATIENCE_S)
                processes = [await PeerProcess.start(patient, Listener()) for _ in range(10)]
                assert threading.active_count() == threads
                reports = await stop_all(processes, bound_s=PATIENCE_S)
                assert {report.stage for report in reports.values()} == {"stdin"}
            assert open_descriptors() == before
            assert children_of_ours(but=others) == []

        run(main())


def state_of(pid: int) -> str:
    stat = read_stat(pid)
    return stat.state if stat else ""


def child_named(parent: int, name: str) -> int:
    for stat in every_process():
        if stat.parent == parent and stat.alive:
            try:
                comm = Path(f"/proc/{stat.id.pid}/comm").read_text().strip()
            except OSError:
                continue
            if comm == name:
                return stat.id.pid
    return 0


class TestStderr:
    """Always drained, bounded in memory and in what it costs others."""

    @both_ways
    def test_a_mebibyte_before_the_answer_does_not_block_the_peer(self, keeper: bool) -> None:
        async def main() -> None:
            listener = Listener()
            async with talking(spec(*bad_peer("stderr-before-handshake"), keeper=keeper), listener) as talk:
                answer = await talk.ask("initialize")
                assert answer["result"]["serverInfo"]["name"] == "bad-peer"
                assert len(talk.process.stderr_tail) <= 64 * 1024

        run(main())

    def test_ten_mebibytes_without_a_newline_become_one_cut_line(self) -> None:
        async def main() -> None:
            listener = Listener()
            async with talking(spec(*bad_peer("stderr-without-newline")), listener) as talk:
                await talk.ask("initialize")
                assert await talk.call_tool("fault") == "after the flood"
            (line,) = listener.lines
            assert (line.data, line.size) == (b"e" * 8 * 1024, 10 * 1024 * 1024)
            assert len(listener.exits[0].stderr_tail) == 64 * 1024

        run(main())


class TestLimits:
    """What a peer may take is bounded, and going over it is said."""

    @both_ways
    def test_a_memory_hog_dies_of_it(self, keeper: bool) -> None:
        async def main() -> None:
            limits = ProcessLimits(memory_bytes=200 * 1024 * 1024)
            listener = Listener()
            peer = spec(*bad_peer("memory-hog"), keeper=keeper, limits=limits)
            async with talking(peer, listener) as talk:
                await talk.ask("initialize")
                talk.send("tools/call", {"name": "fault"}, call=2)
                how = await asyncio.wait_for(talk.process.wait(), PATIENCE_S)
                assert how.limit == "memory", how

        run(main())

    @both_ways
    def test_a_cpu_spin_dies_of_it(self, keeper: bool) -> None:
        async def main() -> None:
            limits = ProcessLimits(cpu_s=1)
            async with talking(spec(*bad_peer("cpu-spin"), keeper=keeper, limits=limits)) as talk:
                await talk.ask("initialize")
                talk.send("tools/call", {"name": "fault"}, call=2)
                how = await asyncio.wait_for(talk.process.wait(), PATIENCE_S)
                assert (how.signal, how.limit) == ("SIGXCPU", "cpu")

        run(main())

    def test_a_fork_bomb_is_ended_whoever_runs_it(self) -> None:
        async def main() -> None:
            limits = ProcessLimits(processes=20)
            peer = spec(*bad_peer("fork-bomb"), limits=limits, env={"BAD_PEER_COUNT": "128"})
            async with talking(peer) as talk:
                await talk.ask("initialize")
                talk.send("tools/call", {"name": "fault"}, call=2)
                how = await asyncio.wait_for(talk.process.wait(), PATIENCE_S)
                assert how.limit == "processes", how
                await asyncio.wait_for(talk.process.wait_gone(), PATIENCE_S)
                assert bearers(talk.process.mark) == []

        run(main())

    def test_open_files_are_limited(self) -> None:
        async def main() -> None:
            code = "import os\nwhile True: os.dup(0)"
            process = await PeerProcess.start(
                spec(*python(code), limits=ProcessLimits(open_files=32)), Listener()
            )
            how = await end_of(process)
            assert b"Too many open files" in how.stderr_tail

        run(main())


def test_a_killed_keeper_takes_its_whole_tree_along() -> None:
    async def main() -> None:
        listener = Listener()
        async with talking(spec(*bad_peer("whole-family")), listener) as talk:
            await talk.ask("initialize")
            family: dict[str, int] = json.loads(await talk.call_tool("fault"))
            os.kill(talk.process.keeper_pid or 0, signal.SIGKILL)
            await asyncio.wait_for(talk.process.wait_gone(), PATIENCE_S)
            assert not any(map(is_alive, family.values()))
            assert [how.signal for how in listener.exits] == ["SIGKILL"]

    run(main())


def test_signals_of_the_terminal_do_not_reach_a_kept_peer() -> None:
    async def main() -> None:
        async with talking(spec(*bad_peer("never-answers"))) as talk:
            await talk.ask("initialize")
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                os.kill(talk.process.keeper_pid or 0, number)
            assert await talk.call_tool("echo") == "hello"

    run(main())


def test_marks_are_one_of_their_kind_and_name_this_process() -> None:
    owner = Owner.this_process()
    marks = {owner.mark() for _ in range(100)}
    assert len(marks) == 100
    assert {Owner.of_mark(mark) for mark in marks} == {owner}
    assert owner.alive
