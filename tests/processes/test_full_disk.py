"""A whole gateway whose disk is full, or read-only: a real one. What its core sees, and how it goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.runtime.keeping import keeper_works
from recordings.store import Recording, open_recording
from tests.processes.fault_kit import check_answers
from tests.processes.gateway_kit import (
    Client,
    Message,
    Program,
    echo,
    eventually,
    program,
    run,
    state,
    text_of,
    told,
)
from tests.processes.small_disk import MIB, Disk, disks_can_be_made, small_disk

pytestmark = [
    pytest.mark.skipif(not keeper_works(), reason="needs Linux with /proc"),
    pytest.mark.skipif(not disks_can_be_made(), reason="needs a mount namespace of its own"),
]
_ = state

SIZE = 12 * MIB
UNRECORDED = "unrecorded " * 1000
"""More than the rest of a page that the file has already: that much fits on a full disk."""
REFUSED = ("io", "recorder_unavailable", "not_sent")


def recordings(disk: Disk) -> list[Recording]:
    found = (path for path in disk.path.iterdir() if (path / "recording.json").exists())
    return sorted(map(open_recording, found), key=lambda recording: recording.header.started)


async def is_refused(core: Client) -> None:
    answer = await core.tool("good__echo", text=UNRECORDED)
    data = told(answer)
    assert (data["code"], data["reason"], data["outcome"]) == REFUSED
    assert "recording cannot be written" in answer["error"]["message"]


async def is_served_again(core: Client) -> None:
    """Call until it is served: the recorder asks for room again a second after it had none."""
    while "error" in (answer := await core.tool("good__echo", text="after")):
        assert told(answer)["reason"] == "recorder_unavailable"
    assert text_of(answer) == "after"


async def ends(gateway: Program) -> None:
    gateway.process.terminate()
    assert await gateway.ended() == 0


def warnings(gateway: Program) -> int:
    return gateway.said().count("warning: the recording cannot be written")


@pytest.mark.parametrize("durability", ["os", "group", "barrier"])
def test_calls_are_refused_on_a_full_disk_and_made_again_when_there_is_room(
    durability: str, tmp_path: Path
) -> None:
    async def main(disk: Disk) -> None:
        record: Message = {"durability": durability}
        with program(tmp_path, {"good": echo()}, wrap=disk.enter, record=record) as gateway:
            core = await gateway.core()
            assert text_of(await core.tool("good__echo", text="before")) == "before"
            _, slow = core.start_tool("good__echo", text="in flight", delay_ms=500)
            assert text_of(await core.tool("good__echo", text="the one before is on its way"))
            disk.fill()
            for _ in range(3):
                await is_refused(core)
            assert text_of(await slow) == "in flight", "it ends into the reserve"
            await is_refused(core)
            disk.empty()
            await is_served_again(core)
            check_answers(core)
            assert warnings(gateway) == 1
            core.close()
            await ends(gateway)
        [recording] = recordings(disk)
        assert recording.state == "sealed"
        bodies = b"".join(bytes(frame.body) for frame in recording)
        assert all(text in bodies for text in (b"before", b"in flight", b"after"))
        assert b"unrecorded" not in bodies
        assert any("are not recorded: the recording cannot be written" in text for text in recording.warnings)

    with small_disk(tmp_path / "recordings", SIZE) as disk:
        run(main(disk))


def test_calls_are_served_on_a_full_disk_where_that_is_asked_for_and_the_recording_says_so(
    tmp_path: Path,
) -> None:
    async def main(disk: Disk) -> None:
        record = {"on_write_error": "serve"}
        with program(tmp_path, {"good": echo()}, wrap=disk.enter, record=record) as gateway:
            core = await gateway.core()
            assert text_of(await core.tool("good__echo", text="before")) == "before"
            disk.fill()
            for number in range(20):
                text = f"{number}" + "x" * 100_000
                assert text_of(await core.tool("good__echo", text=text)) == text
            disk.empty()
            assert text_of(await core.tool("good__echo", text="after")) == "after"
            check_answers(core)
            core.close()
            await ends(gateway)
        [recording] = recordings(disk)
        assert recording.header.incomplete
        assert any("incomplete" in text for text in recording.warnings)

    with small_disk(tmp_path / "recordings", SIZE) as disk:
        run(main(disk))


def test_no_session_is_served_on_a_read_only_disk_and_the_next_one_is_when_it_is_writable(
    tmp_path: Path,
) -> None:
    async def main(disk: Disk) -> None:
        with program(tmp_path, {"good": echo()}, wrap=disk.enter) as gateway:
            first = await gateway.core()
            assert text_of(await first.tool("good__echo", text="before")) == "before"
            first.close()
            await eventually(lambda: [one.state for one in recordings(disk)] == ["sealed"], "the seal")
            disk.remount("ro")
            second = await gateway.core(shake=False)
            data = told(await second.shake_hands())
            assert (data["code"], data["reason"], data["outcome"]) == REFUSED
            await is_refused(second)
            check_answers(second)
            second.close()
            disk.remount("rw")
            third = await gateway.core()
            assert text_of(await third.tool("good__echo", text="after")) == "after"
            assert gateway.said().count("warning: ") == gateway.said().count("Read-only file system") == 1
            third.close()
            await ends(gateway)
        assert [one.state for one in recordings(disk)] == ["sealed", "sealed"]

    with small_disk(tmp_path / "recordings", SIZE) as disk:
        run(main(disk))


def test_a_gateway_does_not_start_on_a_read_only_disk_and_says_why(tmp_path: Path) -> None:
    with small_disk(tmp_path / "recordings", SIZE) as disk:
        disk.remount("ro")
        with (
            pytest.raises(AssertionError, match="Read-only file system"),
            program(tmp_path, {"good": echo()}, wrap=disk.enter),
        ):
            pass
