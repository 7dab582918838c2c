"""The pytest plugin as a project uses it: each test here writes a small project and runs pytest in it."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.processes.replay_kit import called, environment, starts, tree, varied

PATIENCE_S = 60
HEAD = """
import os, socket, subprocess, sys
from pathlib import Path
import pytest
from mcp import Client

pytestmark = pytest.mark.anyio
KEYS = os.environ.get("KEYS", "a").split()

@pytest.fixture
def anyio_backend():
    return "asyncio"

async def agent(transport, keys=KEYS):
    async with Client(transport) as client:
        await client.list_tools()
        said = [await client.call_tool("get", {"key": key}) for key in keys]
    return [result.content[0].text for result in said]
"""


class Project:
    """A directory with a test file, and pytest in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.peer = folder / "peer"
        self.services = varied(self.peer)
        self.recordings = folder / "recordings"

    def write(self, body: str) -> None:
        """Write the test file; `SERVICES` in it is the command of the varied peer."""
        text = HEAD + f"\nSERVICES = {self.services!r}\n" + textwrap.dedent(body)
        (self.folder / "test_agent.py").write_text(text)

    def pytest(self, *options: str, ci: bool = False, **env: str) -> tuple[int, str, dict[str, str]]:
        """Run pytest; give its exit code, what it printed, and the outcome of each test."""
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-q"]
        there = environment(self.folder) | env
        for name in ("CI", "PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST"):
            there.pop(name, None)
        if ci:
            there["CI"] = "true"
        done = subprocess.run(
            [*command, "--junit-xml", "out.xml", *options],
            cwd=self.folder,
            env=there,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        outcomes: dict[str, str] = {}
        if (self.folder / "out.xml").exists():
            for case in ElementTree.parse(self.folder / "out.xml").iter("testcase"):
                told = [one.tag for one in case if one.tag in ("failure", "error", "skipped")]
                outcomes[str(case.get("name"))] = told[0] if told else "passed"
        return done.returncode, done.stdout + done.stderr, outcomes


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """An empty project."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return Project(tmp_path)


IN_PROCESS = """
@pytest.mark.tieline(services=SERVICES)
async def test_it(tieline):
    assert await agent(tieline.connect()) == [f"value of {key}" for key in KEYS]
"""


def test_once_records_beside_the_test_and_replays_from_then_on(project: Project) -> None:
    project.write(IN_PROCESS)
    first = project.pytest()
    recorded = tree(project.recordings)
    second = project.pytest()

    assert (first[0], second[0]) == (0, 0), first[1] + second[1]
    assert starts(project.peer) == 1
    assert (project.recordings / "test_agent" / "test_it" / "recording.json").exists()
    assert tree(project.recordings) == recorded
    assert [one.name for one in (project.recordings / "test_agent").iterdir()] == ["test_it"]


def test_in_ci_a_test_is_replayed_and_a_missing_recording_fails_with_advice(project: Project) -> None:
    project.write(IN_PROCESS)
    code, said, _ = project.pytest(ci=True)

    assert code == 1
    assert "there is no recording" in said
    assert "run once with `--tieline=once`" in said
    assert starts(project.peer) == 0
    assert project.pytest("--tieline=once", ci=True)[0] == 0
    assert project.pytest(ci=True)[0] == 0
    assert starts(project.peer) == 1


def test_extend_that_leaves_a_part_unplayed_leaves_the_recording(project: Project) -> None:
    project.write(IN_PROCESS)
    assert project.pytest(KEYS="a b")[0] == 0
    before = tree(project.recordings)
    code, said, _ = project.pytest("--tieline=extend", KEYS="a c")

    assert code == 1, said
    assert tree(project.recordings) == before


def test_another_request_fails_with_the_report_and_extend_adds_it(project: Project) -> None:
    project.write(IN_PROCESS)
    assert project.pytest()[0] == 0
    code, said, _ = project.pytest("--tieline=replay", KEYS="a b")
    assert code == 1
    assert "the recording has no answer left" in said
    assert "DIVERGED  lane (no lane)" in said
    assert "to record what this test asks anew: pytest --tieline=rewrite test_" in said
    assert starts(project.peer) == 1

    extended = project.pytest("--tieline=extend", KEYS="a b")
    assert extended[0] == 0, extended[1]
    assert called(project.peer) == ["get", "get"]
    again = project.pytest("--tieline=replay", KEYS="a b")
    assert again[0] == 0, again[1]


CAUGHT = """
@pytest.mark.tieline(services=SERVICES)
async def test_it(tieline):
    try:
        await agent(TRANSPORT)
    except BaseException:
        pass
"""


@pytest.mark.parametrize("transport", ["tieline.connect()", "served(tieline.command)"])
def test_an_agent_that_swallows_the_error_of_a_replay_fails_all_the_same(
    project: Project, transport: str
) -> None:
    served = """
    from mcp.client.stdio import StdioServerParameters

    def served(command):
        return StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
    """
    project.write(textwrap.dedent(served) + CAUGHT.replace("TRANSPORT", transport))
    assert project.pytest()[0] == 0
    code, said, _ = project.pytest("--tieline=replay", KEYS="a b")

    assert code == 1
    assert "DIVERGED  lane (no lane)" in said
    assert said.count("to record what this test asks anew: pytest --tieline=rewrite test_") == 1
    assert "Traceback" not in said


def test_what_is_not_played_fails_unless_the_test_says_otherwise(project: Project) -> None:
    project.write(IN_PROCESS)
    assert project.pytest(KEYS="a b")[0] == 0
    code, said, _ = project.pytest(KEYS="a")
    assert code == 1
    assert "the agent left before `tools/call get`" in said

    project.write(IN_PROCESS.replace("services=SERVICES", "services=SERVICES, unplayed='ignore'"))
    code, said, _ = project.pytest(KEYS="a")
    assert code == 0, said


def test_rewrite_records_anew_and_a_test_that_fails_leaves_the_recording(project: Project) -> None:
    project.write(IN_PROCESS)
    assert project.pytest()[0] == 0
    before = tree(project.recordings)
    failing = IN_PROCESS.replace("for key in KEYS]", "for key in 'x']")
    project.write(
        failing.replace(
            "assert await", "async with tieline.connect() as streams: raise ValueError\n    await"
        )
    )
    assert project.pytest("--tieline=rewrite")[0] == 1
    assert tree(project.recordings) == before

    project.write(IN_PROCESS)
    assert project.pytest("--tieline=rewrite", KEYS="c")[0] == 0
    assert project.pytest("--tieline=replay", KEYS="c")[0] == 0
    assert [one.name for one in (project.recordings / "test_agent").iterdir()] == ["test_it"]


def test_verify_asks_the_live_services_and_fails_on_drift(project: Project) -> None:
    project.write(IN_PROCESS)
    assert project.pytest()[0] == 0
    code, said, outcomes = project.pytest("--tieline=verify")
    assert (code, outcomes) == (0, {"test_it": "skipped"}), said

    project.services = varied(project.peer, "other-type")
    project.write(IN_PROCESS)
    code, said, _ = project.pytest("--tieline=verify")
    assert code == 1
    assert "type changed" in said


COMMAND = """
@pytest.mark.tieline(services=SERVICES)
async def test_it(tieline):
    from mcp.client.stdio import StdioServerParameters
    program, *arguments = tieline.command
    env = dict(os.environ)
    to = StdioServerParameters(command=program, args=arguments, env=env)
    assert await agent(to) == [f"value of {key}" for key in KEYS]
"""


def test_an_agent_that_starts_its_servers_is_given_a_command(project: Project) -> None:
    project.write(COMMAND)
    first = project.pytest()
    second = project.pytest(ci=True)
    assert (first[0], second[0]) == (0, 0), first[1] + second[1]
    assert starts(project.peer) == 1

    code, said, _ = project.pytest(ci=True, KEYS="a b")
    assert code == 1
    assert "the recording has no answer left" in said
    assert [one.name for one in (project.recordings / "test_agent").iterdir()] == ["test_it"]


def test_a_guarded_test_may_neither_reach_the_network_nor_start_a_program(project: Project) -> None:
    project.write(
        """
        @pytest.mark.tieline("one", services=SERVICES)
        async def test_network(tieline):
            await agent(tieline.connect())
            if os.environ.get("STRAY"):
                with pytest.raises(RuntimeError, match="refused while a recording is replayed"):
                    socket.create_connection(("192.0.2.1", 80))

        @pytest.mark.tieline("one", services=SERVICES)
        async def test_process(tieline):
            await agent(tieline.connect())
            if os.environ.get("STRAY"):
                with pytest.raises(RuntimeError, match="refused while a recording is replayed"):
                    subprocess.run([sys.executable, "-c", ""])

        @pytest.mark.tieline("one", services=SERVICES, guard=False)
        async def test_free(tieline):
            await agent(tieline.connect())
            subprocess.run([sys.executable, "-c", ""], check=True)

        def test_unguarded_after_all():
            subprocess.run([sys.executable, "-c", ""], check=True)
        """
    )
    assert project.pytest("-k", "network")[0] == 0
    code, said, outcomes = project.pytest("--tieline=replay", STRAY="yes")

    assert code == 1
    # The agent has swallowed the error: it is told at the end all the same.
    assert outcomes.pop("test_free") == outcomes.pop("test_unguarded_after_all") == "passed"
    assert set(outcomes.values()) <= {"error", "failure"}, said
    assert "refused while replaying: the address of 192.0.2.1" in said
    assert "refused while replaying: the start of" in said


def test_the_services_can_come_from_a_fixture_or_a_configuration(project: Project) -> None:
    config = project.folder / "tieline.toml"
    config.write_text(f"[peers.varied]\ncommand = {json.dumps(project.services)}\n")
    project.write(
        """
        @pytest.fixture
        def tieline_services():
            return SERVICES

        async def test_fixture(tieline_services, tieline):
            assert await agent(tieline.connect()) == ["value of a"]

        @pytest.mark.tieline(name="named", config="tieline.toml")
        async def test_config(tieline):
            assert await agent(tieline.connect()) == ["value of a"]
        """
    )
    code, said, _ = project.pytest()
    assert code == 0, said
    assert starts(project.peer) == 2
    assert (project.recordings / "named").is_dir()
    assert project.pytest("--tieline=replay")[0] == 0


def test_the_services_of_a_fixture_need_not_be_asked_for_by_name(project: Project) -> None:
    project.write(
        """
        @pytest.fixture
        def tieline_services():
            return SERVICES

        async def test_it(tieline):
            assert await agent(tieline.connect()) == ["value of a"]
        """
    )
    code, said, _ = project.pytest()
    assert code == 0, said


def test_a_test_that_does_not_use_its_recording_fails(project: Project) -> None:
    project.write(
        """
        @pytest.mark.tieline(services=SERVICES)
        async def test_it(tieline):
            pass
        """
    )
    code, said, _ = project.pytest()
    assert code == 1
    assert "nothing was replayed" in said


def test_parametrised_tests_have_a_recording_each(project: Project) -> None:
    project.write(
        """
        @pytest.mark.parametrize("key", ["a", "b/c"])
        @pytest.mark.tieline(services=SERVICES)
        async def test_it(tieline, key):
            assert await agent(tieline.connect(), [key]) == [f"value of {key}"]
        """
    )
    assert project.pytest()[0] == 0
    code, said, _ = project.pytest(ci=True)
    assert code == 0, said
    names = sorted(one.name for one in (project.recordings / "test_agent").iterdir())
    assert names == ["test_it-a", "test_it-b-c"]


def test_without_services_a_recording_that_is_to_be_made_is_a_sentence(project: Project) -> None:
    project.write(
        """
        async def test_it(tieline):
            await agent(tieline.connect())
        """
    )
    code, said, _ = project.pytest()
    assert code == 1
    assert "is to be recorded, and no `services` are named" in said
    assert tree(project.recordings) == {}
