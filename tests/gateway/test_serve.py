"""The gateway as a whole, in this process: what it says to people, what it writes of peers, what a reload leaves."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.config.options import ServeOptions
from recordings.header import PeerFacts
from recordings.store import open_recording
from tests.processes.gateway_kit import echo, eventually, house, run, state, text_of, toml_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
_ = state

SECRET = "sk-proj-C4n4ryAbCdEfGhIjKlMnOp0123456789"


def test_words_of_peers_reach_people_without_secrets_and_without_what_acts_on_a_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        async with house(tmp_path, {"good": echo()}) as here:
            here.gateway.exchange.tell(f"good says \x1b[2J\rit knows {SECRET}")

    run(main())
    said = capfd.readouterr().err
    assert "note: good says \\x1b[2J\\rit knows [REDACTED" in said
    assert SECRET not in said
    assert "\x1b" not in said


def test_a_recording_says_which_version_each_peer_speaks(tmp_path: Path) -> None:
    async def main() -> None:
        peers = {"own": echo(), "all": echo(scope="shared"), "lazy": echo(start="lazy")}
        async with house(tmp_path, peers) as here:
            first = await here.core()
            for peer in ("own", "all"):
                assert text_of(await first.tool(f"{peer}__echo", text="hi")) == "hi"
            ready = lambda: here.recording().header.peers["own"].version == "2025-11-25"  # noqa: E731
            await eventually(ready, "the version in the header")
            assert here.recording().header.peers["own"].software != ""
            # Who comes later finds the shared peer ready: its recording says so from the start.
            await here.core(shake=False)
            assert here.recording(1).header.peers["all"].version == "2025-11-25"
            assert here.recording(1).header.peers["own"].version == ""
        header = here.recording().header
        assert {name: facts.version for name, facts in header.peers.items() if name != "lazy"} == {
            "own": "2025-11-25",
            "all": "2025-11-25",
        }

    run(main())


def test_a_recording_says_what_its_core_is_and_speaks_without_secrets(tmp_path: Path) -> None:
    async def main() -> None:
        async with house(tmp_path, {"own": echo()}) as here:
            core = await here.core(shake=False)
            assert (here.recording().header.core or PeerFacts()).version == ""
            info = {"name": f"agent with {SECRET}", "version": "7.1"}
            params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}
            agreed = (await core.ask("initialize", params))["result"]["protocolVersion"]
        facts = here.recording().header.core
        assert facts is not None
        assert (facts.dialect, facts.transport, facts.version) == ("mcp", "memory", agreed)
        assert facts.software.startswith("agent with [REDACTED")
        assert facts.software.endswith(" 7.1")

    run(main())


def test_a_first_extension_is_taken_in_by_a_reload_only_where_the_policy_can_be_read(tmp_path: Path) -> None:
    file = tmp_path / "tieline.toml"
    options = ServeOptions(record_dir=tmp_path / "recordings", config_path=file)
    broken = {"extensions": {"policy": {"mode": "lax"}}}

    async def main() -> None:
        async with house(tmp_path, {"good": echo()}, options=options, **broken) as here:
            core = await here.core()
            file.write_text(toml_of({"good": echo(), "ext": {**echo(), "dialect": "pi"}}, **broken))
            here.gateway.reload()
            assert list(here.gateway.config.peers) == ["good"]
            [mark] = [frame.x for frame in here.recording() if frame.kind == "mark"]
            assert mark is not None
            assert "extensions.policy" in mark["reload_failed"]
            assert text_of(await core.tool("good__echo", text="still there")) == "still there"

    run(main())


def test_what_only_a_new_start_applies_stays_as_it_was_for_new_sessions_too(tmp_path: Path) -> None:
    file = tmp_path / "tieline.toml"
    options = ServeOptions(record_dir=tmp_path / "recordings", config_path=file)

    async def main() -> None:
        async with house(tmp_path, {"good": echo()}, options=options) as here:
            await here.core()
            off = {
                "record": {"enabled": False},
                "limits": {"max_sessions": 1, "max_in_flight_per_session": 1},
            }
            file.write_text(toml_of({"good": echo(), "more": echo()}, **off))
            here.gateway.reload()
            second = await here.core()
            assert text_of(await second.tool("more__echo", text="applied")) == "applied"
            slow = [second.start_tool("good__echo", text=text, delay_ms=200)[1] for text in ("a", "b")]
            assert [text_of(answer) for answer in await asyncio.gather(*slow)] == ["a", "b"]
            assert len(here.recordings()) == 2
            here.gateway.reload()
            await here.core()
        assert len([open_recording(path) for path in here.recordings()]) == 3

    run(main())


def test_a_gateway_without_extensions_loads_nothing_that_serves_them() -> None:
    code = (
        "import sys, gateway.serve, gateway.runtime.world\n"
        "of = ('gateway.hooks', 'gateway.policy', 'gateway.sessions.', 'gateway.runtime.host', 'gateway.calls.host')\n"
        "found = {name for name in sys.modules if name.startswith(of)}\n"
        "assert not found, found\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
