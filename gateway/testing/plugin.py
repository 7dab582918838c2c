"""The pytest plugin: a recording beside each test that asks for one, replayed, or made with live services.

Owns the options, the marker, the fixtures and where recordings lie. `replay` does the rest.

```python
@pytest.mark.tieline(services=["npx", "-y", "some-server"])
async def test_an_agent(tieline):
    async with Client(tieline.connect()) as client:
        ...
```
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import pytest

from gateway.testing.guard import Guard, guarded

if TYPE_CHECKING:
    from gateway.testing.replay import How, Services

MODES = ("replay", "once", "rewrite", "extend", "verify")
FOLDER = "recordings"
MARK = "tieline"
FAILED = pytest.StashKey[bool]()
TIELINE = (sys.executable, "-c", "import sys; from gateway.cli.main import main; sys.exit(main())")
"""This very Tieline, wherever its command lies."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--tieline`."""
    group = parser.getgroup("tieline", "replay of recorded services")
    group.addoption(
        "--tieline",
        choices=MODES,
        default=None,
        help="replay: recordings only; once: record what is not there yet; rewrite: record all anew; extend: ask live "
        "what a recording lacks, and add it; verify: send the recorded requests to the live services. "
        "Default: replay where CI is set, else once.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        f"{MARK}(name=None, services=None, config=None, gate=None, unplayed='fail', guard=True, allow_hosts=()): "
        "replay the services of this test from its recording",
    )


class Tieline:
    """What the fixture gives to a test: a recording in the place of its agent's services."""

    def __init__(
        self,
        path: Path,
        mode: How,
        options: dict[str, Any],
        services: Services,
        tell: Callable[[str], None],
        name: str,
    ) -> None:
        self._tell = tell
        self._onward = f"to record what this test asks anew: pytest --tieline=rewrite {quote(name)}\n"
        self.path = path
        """Where the recording lies, or is to lie."""
        self.mode: How = mode
        self._options = options
        self._services = services
        self.reports: list[Any] = []
        self._unjudged: list[str] = []
        """Reports of sessions that ended with an error of the agent's, which the test may have caught."""
        self._was_used = False

    @property
    def is_recording(self) -> bool:
        """Whether live services are asked and recorded."""
        return self.mode == "rewrite" or (self.mode == "once" and not self.path.exists())

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[tuple[Any, Any]]:
        """A session in this process, as a transport for `mcp.Client`; it ends with the block, and is judged then.

        Raises:
            ReplayFailedError: The agent did otherwise than recorded.
        """
        from gateway.testing.replay import Replay, ReplayFailedError
        from recordings.report import text

        self._was_used = True
        replay = Replay(
            self.path,
            services=self._services,
            mode=self.mode,
            gate=self._options.get("gate"),
            unplayed=self._options.get("unplayed", "fail"),
        )
        try:
            async with replay, replay.connect() as streams:
                yield streams
        except ReplayFailedError:
            self._tell(self._onward)
            raise
        except BaseException:
            # What the test shows is the error that its agent was given; the report stands below that.
            for report in replay.reports:
                if report.exit_code == 1:
                    self._tell(f"{text(report)}\n{self._onward}")
                    self._unjudged.append(text(report))
            raise
        finally:
            self.reports += replay.reports

    @property
    def command(self) -> list[str]:
        """A command that serves the recording on stdin and stdout, for agents that start their servers."""
        self._was_used = True
        # The report is tried before anything is recorded there.
        self.path.parent.mkdir(parents=True, exist_ok=True)
        words = [*self.beginning, str(self.path), "--report", str(self._report)]
        if self.mode != "replay":
            words += ["--mode", self.mode]
            if isinstance(self._services, Path):
                words += ["--config", str(self._services)]
            elif self._services is not None:
                words += ["--", *self._services]
        return words

    @property
    def beginning(self) -> list[str]:
        """How every such command begins."""
        return [*TIELINE, "replay"]

    @property
    def _report(self) -> Path:
        return self.path.with_name(f".{self.path.name}.report.json")

    def verdict(self, *, failed: bool) -> str:
        """What is wrong with the replay that nobody has been told; empty where nothing is.

        `failed` says whether the test has failed already: what its agent was given is shown there then.
        """
        import msgspec

        if not self._was_used:
            return "the test asks for `tieline` and has not used it: nothing was replayed"
        if self._unjudged and not failed:
            return "\n".join(self._unjudged)
        if not self._report.exists():
            return ""
        found = msgspec.json.decode(self._report.read_bytes(), type=dict[str, Any])
        self._report.unlink()
        verdict = found.get("verdict")
        ignored = self._options.get("unplayed") == "ignore" and verdict == "incomplete"
        return "" if verdict == "same" or ignored else f"{found.get('text') or verdict}\n{self._onward}"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any]:
    """Keep whether a test has failed, for the judgement of its replay."""
    outcome = yield
    if call.when == "call":
        item.stash[FAILED] = outcome.get_result().failed


@pytest.fixture
def tieline_services() -> Services:
    """The services of tests whose marker names none: a server's command, or the path of a configuration."""
    return None


@pytest.fixture
def tieline(request: pytest.FixtureRequest) -> Generator[Tieline]:
    """A recording in the place of the services of this test."""
    marker = request.node.get_closest_marker(MARK)
    options: dict[str, Any] = dict(marker.kwargs) if marker is not None else {}
    mode = _mode(request.config)
    path = _path(request, options, marker)
    services = _services(request, options)
    if mode == "verify":
        _verify(path, services)
        pytest.skip("verified the recording against the live services; the test itself was not run")
    if mode == "replay" and not path.exists():
        pytest.fail(
            f"there is no recording `{path}`: run once with `--tieline=once` where the services can be reached",
            pytrace=False,
        )
    tell = partial(request.node.add_report_section, "call", "replay")
    found = Tieline(path, mode, options, services, tell, request.node.nodeid)
    with ExitStack() as stack:
        if options.get("guard", True) and not found.is_recording and mode == "replay":
            allowed = (found.beginning,)
            guard = stack.enter_context(
                guarded(Guard(hosts=options.get("allow_hosts", ()), commands=allowed))
            )
        else:
            guard = None
        yield found
    if guard is not None and guard.refused:
        pytest.fail(f"refused while replaying: {'; '.join(guard.refused)}", pytrace=False)
    wrong = found.verdict(failed=request.node.stash.get(FAILED, False))
    if wrong:
        pytest.fail(wrong, pytrace=False)


def _mode(config: pytest.Config) -> Any:
    given = config.getoption("--tieline")
    return given or ("replay" if os.environ.get("CI") else "once")


def _path(request: pytest.FixtureRequest, options: dict[str, Any], marker: pytest.Mark | None) -> Path:
    """Beside the test: `recordings/<file>/<test>`, or the name that the marker gives."""
    name = options.get("name") or (marker.args[0] if marker is not None and marker.args else None)
    folder = Path(request.path).parent / FOLDER
    if name is not None:
        return folder / str(name)
    test = re.sub(r"[^A-Za-z0-9_.-]+", "-", request.node.name).strip("-")
    return folder / Path(request.path).stem / test


def _services(request: pytest.FixtureRequest, options: dict[str, Any]) -> Services:
    if options.get("config") is not None:
        given = Path(options["config"])
        return given if given.is_absolute() else Path(request.path).parent / given
    services = options.get("services")
    return request.getfixturevalue("tieline_services") if services is None else services


def _verify(path: Path, services: Services) -> None:
    """Fail where the live services have drifted from the recording."""
    import subprocess

    words = [*TIELINE, "verify", str(path)]
    if services is None:
        pytest.fail(f"`{path}` is to be verified, and no services are named", pytrace=False)
    words += ["--config", str(services)] if isinstance(services, Path) else ["--", *services]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(done.stdout + done.stderr, pytrace=False)
