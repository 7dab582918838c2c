"""A recording that cannot be written: no call without a record, or served and marked, as configured."""

from __future__ import annotations

import errno
import os
import sys
from functools import partial
from pathlib import Path

import pytest

from recordings.beside import Reserve
from recordings.store import Recorder
from tests.processes.fault_kit import check_answers
from tests.processes.gateway_kit import House, Message, echo, eventually, house, run, text_of, told

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

FAULTS = [errno.ENOSPC, errno.EROFS, errno.EIO]


class Disk:
    """Takes everything until it is broken; then nothing, with this error."""

    def __init__(self) -> None:
        self.error = 0

    def write(self, fd: int, data: bytes) -> int:
        if self.error:
            raise OSError(self.error, os.strerror(self.error))
        return os.write(fd, data)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    monkeypatch.setattr("gateway.runtime.recording.Recorder", partial(Recorder, write=disk.write))
    return disk


def sent_to(here: House, peer: str) -> int:
    return sum(one.calls for one in here.gateway.exchange.peers_named(peer))


@pytest.mark.parametrize("error", FAULTS, ids=errno.errorcode.get)
def test_no_call_is_made_that_cannot_be_recorded(
    error: int, disk: Disk, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        async with house(tmp_path, {"good": echo()}) as here:
            core = await here.core()
            assert text_of(await core.tool("good__echo", text="before")) == "before"
            sent = sent_to(here, "good")
            disk.error = error
            for _ in range(3):
                answer = await core.tool("good__echo", text="unrecorded")
                data = told(answer)
                assert (data["code"], data["reason"], data["outcome"]) == (
                    "io",
                    "recorder_unavailable",
                    "not_sent",
                )
                assert "recording cannot be written" in answer["error"]["message"]
            assert sent_to(here, "good") == sent
            disk.error = 0
            # The recorder asks for room again a second later, and the session goes on.
            while "error" in (answer := await core.tool("good__echo", text="after")):
                assert told(answer)["reason"] == "recorder_unavailable"
            assert text_of(answer) == "after"
            check_answers(core)
        warnings = here.recording().warnings
        assert any("are not recorded: the recording cannot be written" in text for text in warnings)
        texts = b"".join(bytes(frame.body) for frame in here.frames())
        assert b"before" in texts
        assert b"after" in texts
        assert b"unrecorded" not in texts

    run(main())
    assert capfd.readouterr().err.count("warning: the recording cannot be written") == 1


def test_a_call_in_flight_is_answered_and_ends_into_the_reserve(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Reserve.release

    def release(reserve: Reserve) -> bool:
        done = real(reserve)
        if done and disk.error:
            disk.error = 0
        return done

    async def main() -> None:
        async with house(tmp_path, {"good": echo()}) as here:
            core = await here.core()
            await core.tool("good__echo", text="up")
            _, slow = core.start_tool("good__echo", text="in flight", delay_ms=300)
            await core.tool("good__echo", text="the one before is on its way")
            monkeypatch.setattr(Reserve, "release", release)
            disk.error = errno.ENOSPC
            assert told(await core.tool("good__echo", text="x"))["reason"] == "recorder_unavailable"
            assert text_of(await slow) == "in flight"
            check_answers(core)
        assert here.recording().unanswered == []

    run(main())


@pytest.mark.parametrize("error", FAULTS, ids=errno.errorcode.get)
def test_calls_are_served_unrecorded_where_that_is_asked_for(
    error: int, disk: Disk, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        async with house(tmp_path, {"good": echo()}, record={"on_write_error": "serve"}) as here:
            core = await here.core()
            assert text_of(await core.tool("good__echo", text="before")) == "before"
            disk.error = error
            for number in range(3):
                assert text_of(await core.tool("good__echo", text=str(number))) == str(number)
            disk.error = 0
            check_answers(core)
        assert here.recording().header.incomplete
        assert any("incomplete" in text for text in here.recording().warnings)

    run(main())
    assert capfd.readouterr().err.count("warning: ") == 1


@pytest.mark.parametrize("serve", [False, True])
def test_a_recording_that_cannot_be_begun(
    serve: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "recordings").write_text("a file, where a directory is wanted")
    record: Message = {"on_write_error": "serve"} if serve else {}

    async def main() -> None:
        async with house(tmp_path, {"good": echo()}, record=record) as here:
            core = await here.core(shake=False)
            answer = await core.shake_hands()
            if serve:
                assert "result" in answer
                assert text_of(await core.tool("good__echo", text="hi")) == "hi"
            else:
                data = told(answer)
                assert (data["code"], data["reason"], data["outcome"]) == (
                    "io",
                    "recorder_unavailable",
                    "not_sent",
                )
                assert told(await core.tool("good__echo", text="hi"))["reason"] == "recorder_unavailable"
                assert sent_to(here, "good") == 0
            check_answers(core)

    run(main())
    assert "the recording cannot be written" in capfd.readouterr().err


def test_a_failed_fsync_holds_back_the_answer_and_refuses_calls_under_barrier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    async def main() -> None:
        async with house(tmp_path, {"good": echo()}, record={"durability": "barrier"}) as here:
            core = await here.core()
            assert text_of(await core.tool("good__echo", text="before")) == "before"
            sent = sent_to(here, "good")
            with monkeypatch.context() as patch:
                patch.setattr("recordings.files.sync", fails)
                data = told(await core.tool("good__echo", text="its answer cannot be made safe"))
                assert (data["code"], data["reason"], data["outcome"]) == (
                    "io",
                    "recorder_unavailable",
                    "completed",
                )
                assert sent_to(here, "good") == sent + 1
                for _ in range(3):
                    data = told(await core.tool("good__echo", text="x"))
                    assert (data["reason"], data["outcome"]) == ("recorder_unavailable", "not_sent")
                assert sent_to(here, "good") == sent + 1
            assert await eventually(lambda: here.gateway.world.recordings.failing)
            check_answers(core)

    run(main())
