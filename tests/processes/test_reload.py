"""A gateway that reads its configuration again while it serves: what changed is replaced, nothing else is touched."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from gateway.replay.driven import driven
from gateway.runtime.control import ask, run_dir, sockets
from recordings.store import open_recording
from tests.processes.gateway_kit import (
    Client,
    Message,
    Program,
    echo,
    eventually,
    is_alive,
    program,
    run,
    text_of,
    told,
    toml_of,
)

CHANGED = "notifications/tools/list_changed"


class Reloading:
    """A gateway, one core, and the file between them."""

    def __init__(self, gateway: Program, core: Client, listen: Message, *, signals: bool) -> None:
        self.gateway = gateway
        self.core = core
        self._listen = listen
        self._signals = signals

    def pids(self) -> dict[str, int | None]:
        """The process of each peer."""
        (socket,) = sockets(run_dir(state=self.gateway.directory / "state"))
        return {peer["name"]: peer["pid"] for peer in ask(socket, "status")["peers"]}

    def write(self, text: str) -> None:
        """Save the file, whole or not as an editor may, and say so where the gateway does not watch."""
        path = self.gateway.directory / "tieline.toml"
        draft = path.with_suffix(".new")
        draft.write_text(text)
        draft.replace(path)
        if self._signals:
            os.kill(self.gateway.pid, signal.SIGHUP)

    def configure(self, peers: dict[str, Message], **sections: Any) -> None:
        self.write(toml_of(peers, listen=self._listen, **sections))

    async def change(self, peers: dict[str, Message], **sections: Any) -> None:
        """Change the configuration; returns once the core has been told that the lists are others."""
        before = len(self.core.notes(CHANGED))
        self.configure(peers, **sections)
        await self.core.until(lambda: len(self.core.notes(CHANGED)) > before)

    async def names(self) -> set[str]:
        return {tool["name"] for tool in (await self.core.ask("tools/list"))["result"]["tools"]}


def reloading(
    tmp_path: Path, peers: dict[str, Message], story: Any, *options: str, is_driven: bool = True
) -> Program:
    """Run a gateway with these peers and a core, and `story` with them, and drive what was recorded of it again."""
    listen: Message = {"unix": {"path": str(tmp_path / "sock" / "core.sock")}}

    async def main(gateway: Program) -> None:
        core = await gateway.core()
        await story(Reloading(gateway, core, listen, signals=not options))
        core.close()
        await core.until(lambda: core.endings)

    with program(tmp_path, peers, options=options, listen=listen) as gateway:
        run(main(gateway))
    for recording in gateway.recordings if is_driven else ():
        found = driven(open_recording(recording))
        assert (found.exit_code, found.divergences) == (0, ())
    return gateway


@pytest.mark.parametrize("options", [(), ("--watch",)], ids=["SIGHUP", "--watch"])
def test_untouched_peers_keep_their_process_and_changed_ones_are_replaced(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    same, changed, gone = echo(), echo(), echo()

    async def story(here: Reloading) -> None:
        core = here.core
        for peer in ("same", "changed", "gone"):
            assert text_of(await core.tool(f"{peer}__echo", text=peer)) == peer
        before = here.pids()
        _, slow = core.start_tool("same__echo", text="was under way", delay_ms=700)
        _, lost = core.start_tool("changed__echo", text="never", delay_ms=60_000)
        await core.tool("changed__echo", text="after it")

        await here.change({"same": same, "changed": echo(env={"X": "1"}), "added": echo()})

        data = told(await lost)
        assert (data["code"], data["peer"], data["outcome"]) == ("io", "changed", "unknown")
        assert text_of(await slow) == "was under way"
        assert {name.partition("__")[0] for name in await here.names()} == {"same", "changed", "added"}
        for peer in ("same", "changed", "added"):
            assert text_of(await core.tool(f"{peer}__echo", text=peer)) == peer
        assert told(await core.tool("gone__echo"))["reason"] == "unknown_name"
        after = here.pids()
        assert after["same"] == before["same"]
        assert after["changed"] != before["changed"]
        for peer in ("changed", "gone"):
            pid = before[peer]
            assert pid is not None
            await eventually(lambda pid=pid: not is_alive(pid), "the end of the old process")

    gateway = reloading(tmp_path, {"same": same, "changed": changed, "gone": gone}, story, *options)
    (recording,) = gateway.recordings
    marks = [frame.x or {} for frame in open_recording(recording) if frame.kind == "mark"]
    (mark,) = (facts for facts in marks if facts.get("reloaded"))
    assert mark["replaced"] == ["changed", "gone"]
    assert list(mark["settings"]["peers"]) == ["same", "changed", "added"]


def test_settings_that_need_no_new_connection_need_none(tmp_path: Path) -> None:
    async def story(here: Reloading) -> None:
        core = here.core
        assert text_of(await core.tool("calc__echo", text="one")) == "one"
        before = here.pids()

        await here.change(
            {"calc": echo(tools={"deny": ["elicit"], "rename": {"echo": "say"}}, call_timeout_s=1.5)}
        )

        assert await here.names() == {"calc__say", "calc__progress"}
        assert text_of(await core.tool("calc__say", text="two")) == "two"
        assert told(await core.tool("calc__say", text="late", delay_ms=60_000))["reason"] == "deadline"
        assert here.pids() == before

        await here.change({"calc": echo(restart={"enabled": False})})
        adjusted = "configuration reloaded: adjusted calc\n"
        await eventually(lambda: here.gateway.said().count(adjusted) == 2, "the words about both")
        pid = before["calc"]
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await eventually(lambda: here.pids()["calc"] is None, "the end of the peer")
        assert told(await core.tool("calc__echo", text="no"))["outcome"] == "not_sent"
        assert here.pids()["calc"] is None

    reloading(tmp_path, {"calc": echo()}, story)


def test_a_broken_configuration_changes_nothing_and_every_mistake_is_told_with_its_place(
    tmp_path: Path,
) -> None:
    async def story(here: Reloading) -> None:
        core = here.core
        assert text_of(await core.tool("calc__echo", text="one")) == "one"
        before = here.pids()

        for number, (text, says) in enumerate(BROKEN, 1):
            here.write(text)
            await eventually(
                lambda n=number: here.gateway.said().count("stays as it was") == n, "the warning"
            )
            assert says.replace("FILE", str(tmp_path / "tieline.toml")) in here.gateway.said()
        assert text_of(await core.tool("calc__echo", text="two")) == "two"
        assert here.pids() == before
        assert core.notes(CHANGED) == []

        await here.change({"calc": echo(), "more": echo()})
        assert here.pids()["calc"] == before["calc"]
        assert text_of(await core.tool("more__echo", text="repaired")) == "repaired"

    gateway = reloading(tmp_path, {"calc": echo()}, story)
    (recording,) = gateway.recordings
    failed = [
        frame.x
        for frame in open_recording(recording)
        if frame.kind == "mark" and "reload_failed" in (frame.x or {})
    ]
    assert len(failed) == len(BROKEN)


BROKEN = [
    ("[peers.calc\n", "FILE:1: is not valid TOML"),
    (
        '[peers.calc]\ncomand = ["x"]\n[peers.b]\nurl = "ftp://x"\n',
        "FILE:2: `peers.calc.comand` is not a known key; did you mean `command`?",
    ),
    ('[peers.b]\nurl = "ftp://x"\n', "FILE:2: `peers.b.url` must begin with"),
    (
        '[peers.b]\ncommand = ["x"]\n[record.redact]\npatterns = ["("]\n',
        "FILE:4: `record.redact.patterns[0]`",
    ),
]


def test_what_only_a_new_start_can_apply_is_said(tmp_path: Path) -> None:
    async def story(here: Reloading) -> None:
        here.configure({"calc": echo()}, limits={"max_sessions": 1})
        await eventually(lambda: "`limits` has changed" in here.gateway.said(), "the warning")
        assert text_of(await here.core.tool("calc__echo", text="on")) == "on"

    reloading(tmp_path, {"calc": echo()}, story)


def test_warm_and_shared_peers_follow_the_configuration_too(tmp_path: Path) -> None:
    async def story(here: Reloading) -> None:
        core = here.core
        assert text_of(await core.tool("all__echo", text="one")) == "one"
        other = await here.gateway.core()
        assert text_of(await other.tool("all__echo", text="two")) == "two"
        before = here.pids()["all"]

        await here.change({"all": echo(scope="shared", env={"X": "1"}), "warm": echo(warm=1, env={"X": "1"})})

        for client in (core, other):
            assert text_of(await client.tool("all__echo", text="three")) == "three"
            assert text_of(await client.tool("warm__echo", text="four")) == "four"
        assert here.pids()["all"] not in (before, None)
        other.close()
        await other.until(lambda: other.endings)
        await asyncio.sleep(0)

    # The greeting of a shared peer is in the recording of the session that had it started anew, and in no other.
    reloading(tmp_path, {"all": echo(scope="shared"), "warm": echo(warm=1)}, story, is_driven=False)
