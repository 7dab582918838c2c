"""Load tests as they are run: every kind of user over every transport, several processes, and what goes wrong."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import cast

import psutil
import pytest

from gateway.bench.ending import POLITE
from loadtest import run
from loadtest.crowd.place import ECHO, Place, Running, running
from loadtest.crowd.results import BEGUN
from tests.transports.tls_kit import certificate

ROOT = Path(__file__).parents[3]
HERE = Path(__file__).parent
PATIENCE_S = 55
RUN = (sys.executable, "-m", "loadtest.run")
LOOSE = ("--budget", "scripted.p95_ms<=30000")
"""These tests are about what is counted, not about how fast this machine is."""

pytestmark = pytest.mark.timeout(110)


# One test, since a fixture of a module would run once in each process that tests are spread over.
def test_every_kind_of_user_works_over_every_transport(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "all_users.py"), str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    everybody = json.loads(done.stdout.splitlines()[-1])

    assert everybody["lanes"] == 2
    results = {(one["kind"], one["over"]): one for one in everybody["results"]}
    assert results.keys() == {
        (k, o) for k in ("scripted", "recorded", "chaos") for o in ("ws", "http", "stdio")
    }
    for which, found in results.items():
        assert (which, found["faults"], found["leftover"]) == (which, {}, False)
        figures = found["figures"]
        for name in ("chaos", "bystander") if which[0] == "chaos" else (which[0],):
            assert figures[f"{name}.calls"] >= 3, which
            assert figures[f"{name}.failed"] == 0, which
            assert figures[f"{name}.sessions"] > 0, which
        if which[0] == "chaos":
            assert figures["bystander.same_agent_p50_ratio"] > 0
            assert figures["bystander.another_agent_p50_ratio"] > 0
    # A bad peer's call that is never answered has failed, even if the run ends first; one that was just made has not.
    assert (everybody["unanswered"]["chaos.failed"], everybody["unanswered"]["chaos.unanswered"]) == (1, 1)
    assert everybody["just_made"] == {}
    # An answer is timed to its last byte, and not to what we have made of it.
    assert everybody["read_slowly"]["scripted.max_ms"] < 250


def ran(
    *words: str, out: Path, code: int, cwd: Path = ROOT, env: Mapping[str, str] | None = None
) -> tuple[str, str]:
    """Run a load test to its end; return what it wrote to stdout and stderr."""
    done = subprocess.run(
        [*RUN, *words, "--out", str(out)],
        cwd=cwd, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout, done.stderr


@contextlib.contextmanager
def going(*words: str, out: Path) -> Generator[tuple[subprocess.Popen[str], Iterator[str]]]:
    """A load test whose users are at work, and what it says on stderr from then on."""
    with subprocess.Popen(
        [*RUN, *words, "--out", str(out)], cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            assert process.stderr is not None
            lines = iter(process.stderr.readline, "")
            for line in lines:
                if re.search(r" [1-9][0-9,]* calls ", line):
                    break
            yield process, lines
        finally:
            if process.poll() is None:
                process.terminate()


def test_a_broken_budget_is_named_and_what_was_recorded_can_be_a_crowd(tmp_path: Path) -> None:
    one, crowd = tmp_path / "one", tmp_path / "crowd"
    words = ("--seconds", "1", "--count", "2", "--lanes", "2", "--record", *LOOSE)

    said, _ = ran(*words, "--budget", "scripted.calls>=1000000", out=one, code=1)

    assert "BROKEN  scripted.calls: " in said
    assert "wanted at least 1,000,000: short by" in said
    assert "FAILED: 1 of 3 budgets broken" in (one / "report.html").read_text()

    said, err = ran(
        *("--users", "recorded", "--recording", ".", "--count", "6", "--workers", "2"),
        *("--seconds", "3", "--spread", "0.5", "--budget", "recorded.p95_ms<=30000"),
        out=crowd, code=0, cwd=one / "recordings",
    )  # fmt: skip

    newest = max((one / "recordings").iterdir())
    assert f"the newest recording in {newest.parent} is {newest.name}\n" in err
    found = json.loads((crowd / "figures.json").read_text())
    assert found["users"] == 6
    assert found["figures"]["recorded.sessions"] >= 6
    assert found["trouble"] == ""
    assert "PASSED" in said
    files = {"report.html", "figures.csv", "course.csv", "failures.csv", "locust.html"}
    assert {path.name for path in crowd.iterdir()} >= files


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_keeps_what_there_is(tmp_path: Path, number: int) -> None:
    with going("--seconds", "600", "--workers", "1", out=tmp_path) as (process, lines):
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(number)
        rest = "".join(lines)
        assert process.wait(PATIENCE_S) == 130

    assert "interrupted; what was measured until then is in" in rest
    assert "Traceback" not in rest
    found = json.loads((tmp_path / "figures.json").read_text())
    assert found["trouble"] == "interrupted"
    assert found["figures"]["scripted.calls"] > 0
    assert "BROKEN OFF" in (tmp_path / "report.html").read_text()
    _, alive = psutil.wait_procs(children, timeout=PATIENCE_S)
    assert alive == []


def test_a_master_that_is_told_to_end_has_not_passed(tmp_path: Path) -> None:
    """It stops its workers and hears from them, as at the end of a run."""
    with going("--seconds", "600", "--workers", "1", *LOOSE, out=tmp_path) as (process, lines):
        children = psutil.Process(process.pid).children()
        [master] = [child for child in children if "--headless" in child.cmdline()]
        master.terminate()
        "".join(lines)
        assert process.wait(PATIENCE_S) == 130

    assert json.loads((tmp_path / "figures.json").read_text())["trouble"] == "interrupted"
    assert "BROKEN OFF" in (tmp_path / "report.html").read_text()


def own_config(folder: Path, listening: str, *names: str) -> Path:
    """A configuration with an echo server under each of these prefixes."""
    path = folder / "own.toml"
    peers = [
        f'[peers.{name}]\ncommand = {json.dumps([sys.executable, "-S", "-E", str(ECHO)])}\nprefix = "{name}"\n'
        for name in names
    ]
    path.write_text(
        "\n".join(["[listen]\nstdio = false", f"[listen.websocket]\nport = 0\n{listening}", *peers])
    )
    return path


def test_a_gateway_without_servers_that_misbehave_is_told_which_are_missing(tmp_path: Path) -> None:
    """An error is a right answer of a bad server, and whoever has none would hear nothing else."""
    config = own_config(tmp_path, "insecure_loopback = true", "good", "stall")
    words = ("--users", "chaos", "--faults", "stall,flood", "--config", str(config), "--seconds", "60")

    said, err = ran(*words, out=tmp_path / "out", code=3)

    assert "error: the gateway has no tool `stall__fault` and no `flood__fault`\n" in err
    assert "hint: agents of this kind call `good__echo`, and of each fault `FAULT__fault`" in err
    assert " calls " not in said + err, "nothing was run"


def test_a_gateway_that_speaks_tls_is_driven_where_its_certificate_is_known(tmp_path: Path) -> None:
    certificate(tmp_path, "127.0.0.1")
    chain, token = tmp_path / "chain.pem", tmp_path / "state" / "token"
    tls = f'[listen.websocket.tls]\ncert = "{chain}"\nkey = "{chain}"'
    config = own_config(tmp_path, tls, "good")
    script = tmp_path / "calls.toml"
    script.write_text('[[call]]\ntool = "good__echo"\narguments = { text = "a" }\nthink_ms = 20\n')
    words = ["--script", str(script), "--seconds", "2", *LOOSE, "--token-file", str(token), "--url"]
    with running(config, "websocket", tmp_path, records=False) as gateway:
        assert gateway.url.startswith("wss://")
        known = {**os.environ, "SSL_CERT_FILE": str(chain)}
        ran(*words, gateway.url, out=tmp_path / "out", code=0, env=known)
        said, _ = ran(*words, gateway.url, out=tmp_path / "out", code=1)
    assert "certificate verify failed" in said


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("ScriptedUser", "there is no gateway to drive"),
        ("ScriptedUser --gateway localhost:9", "`localhost:9` is no address of a gateway"),
        (
            "ScriptedUser --gateway ws://localhost:9 --token-file /none",
            "`/none` cannot be read: No such file",
        ),
        (
            "ScriptedUser --gateway ws://localhost:9 --out /dev/null/out",
            "results cannot be written into `/dev/null/out`",
        ),
        ("ChaosUser --gateway ws://localhost:9 --faults sneeze", "no fault is called sneeze"),
        ("ChaosUser --gateway ws://localhost:9 --faults ,", "no fault is named"),
    ],
)
def test_locust_by_itself_says_what_is_wrong_before_there_are_users(
    tmp_path: Path, words: str, why: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "locust", "-f", str(ROOT / "loadtest" / "locustfile.py"), *words.split(),
         "--headless", "--users", "1", "--run-time", "30s", "--loglevel", "WARNING"],
        cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert done.stderr.startswith("error: ")
    assert why in done.stderr


@pytest.mark.parametrize("transport", ["ws", "http"])
def test_more_agents_than_there_may_be_connections_are_told_what_to_do(
    tmp_path: Path, transport: str
) -> None:
    words = [
        *RUN,
        "--count",
        "120",
        "--seconds",
        "2",
        "--transport",
        transport,
        *LOOSE,
        "--out",
        str(tmp_path),
    ]
    limited = (
        "import os, resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
        "os.execv(sys.executable, sys.argv[1:])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", limited, *words],
        cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "the load generator may open no further connection" in done.stdout
    assert "raise `ulimit -n`, or take more --workers" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_gateway_that_ends_in_the_middle_ends_the_run(tmp_path: Path) -> None:
    with going("--seconds", "600", out=tmp_path) as (process, lines):
        [gateway] = [
            child for child in psutil.Process(process.pid).children() if "--ready-file" in child.cmdline()
        ]
        gateway.kill()
        rest = "".join(lines)
        assert process.wait(PATIENCE_S) == 1

    assert "error: the gateway ended with exit code -9" in rest
    assert json.loads((tmp_path / "figures.json").read_text())["figures"]["scripted.calls"] > 0


def test_a_run_that_has_lost_a_worker_has_not_passed(tmp_path: Path) -> None:
    with going("--seconds", "5", "--workers", "2", *LOOSE, out=tmp_path) as (process, lines):
        [master] = [
            child for child in psutil.Process(process.pid).children() if "--headless" in child.cmdline()
        ]
        workers = master.children()
        assert len(workers) == 2
        workers[0].kill()
        "".join(lines)
        assert process.wait(PATIENCE_S) == 1

    assert json.loads((tmp_path / "figures.json").read_text())["trouble"].startswith("worker ")
    assert "BROKEN OFF" in (tmp_path / "report.html").read_text()


def test_a_load_generator_that_is_killed_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    with going("--seconds", "600", out=tmp_path) as (process, lines):
        children = psutil.Process(process.pid).children(recursive=True)
        [master] = [child for child in children if "--headless" in child.cmdline()]
        master.kill()
        rest = "".join(lines)
        assert process.wait(PATIENCE_S) == 1

    assert "error: the load generator was ended by SIGKILL; what was measured until then is in" in rest
    assert psutil.wait_procs(children, timeout=PATIENCE_S)[1] == []


def test_a_load_generator_that_does_not_end_when_it_is_told_to_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    begun = tmp_path / BEGUN
    deaf = (
        "import pathlib, signal, sys; signal.signal(2, signal.SIG_IGN); pathlib.Path(sys.argv[1]).touch()\n"
    )
    command = [sys.executable, "-c", f"{deaf}while True: signal.pause()", str(begun)]

    def deaf_generator(*_: object) -> list[str]:
        return command

    monkeypatch.setattr(run, "locust_command", deaf_generator)
    monkeypatch.setattr(run, "END_S", 0.1)
    before = [signal.getsignal(number) for number in POLITE]
    options = run.parser().parse_args(["--out", str(tmp_path)])

    class Ended:
        """A gateway that ends when the generator is at work."""

        @property
        def trouble(self) -> str | None:
            return "the gateway ended" if begun.exists() else None

    try:
        assert run.drive(options, Place("stdio"), cast("Running", Ended())) == 1
    finally:
        for number, handler in zip(POLITE, before, strict=True):
            signal.signal(number, handler)
    assert "error: the load generator was ended by SIGKILL" in capfd.readouterr().err


def refused(
    words: list[str], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    """Ask for a load test that cannot be; return what is said about it."""
    monkeypatch.setattr(sys, "argv", ["loadtest.run", *words])
    assert run.main() == code
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    return said


@pytest.fixture
def taken() -> Generator[int]:
    """A port where somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def test_no_gateway_at_an_address_is_said_before_anything_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    words = ["--url", f"ws://127.0.0.1:{port}/mcp", "--out", str(tmp_path)]

    said = refused(words, 3, monkeypatch, capsys)

    assert said.startswith(f"error: no gateway answers at ws://127.0.0.1:{port}/mcp: Connection refused\n")
    assert "hint: start one" in said


def test_a_port_in_use_is_said_in_words(
    tmp_path: Path, taken: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(["--port", str(taken), "--out", str(tmp_path)], 3, monkeypatch, capsys)

    assert f"{taken}, where another program listens already" in said


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (["--users", "recorded"], 2, "recorded agents need a recording"),
        (["--users", "recorded", "--recording", "nowhere"], 3, "cannot be played"),
        (["--users", "chaos", "--faults", "sneeze"], 2, "no fault is called sneeze"),
        (["--users", "chaos", "--faults", ""], 2, "no fault is named"),
        (["--users", "chaos", "--calm", "10"], 2, "`--calm` must be more than 0 and less than `--seconds`"),
        (
            ["--users", "chaos", "--flood", "9", "--config", "a.toml"],
            2,
            "`--flood` does nothing beside `--config`",
        ),
        (["--url", "localhost:8400"], 3, "is no address of a gateway"),
        (["--budget", "p95<3"], 3, "is no budget"),
        (["--budget", "chaos.calls>=3"], 3, "this run has scripted agents, and measures no chaos"),
        (["--factor", "2"], 2, "`--factor` does nothing to scripted agents, only to recorded ones"),
        (["--users", "chaos", "--lanes", "2"], 2, "`--lanes` does nothing to chaos agents"),
        (["--url", "ws://127.0.0.1:9/mcp", "--record"], 2, "`--record` does nothing to a gateway that runs"),
        (["--config", "a.toml", "--port", "9"], 2, "`--port` does nothing beside `--config`"),
        (["--token-file", "token"], 2, "`--token-file` does nothing without `--url`"),
        (["--script", "nowhere.toml"], 3, "nowhere.toml` cannot be read: No such file"),
        (
            ["--url", "ws://127.0.0.1:9/mcp", "--token-file", "nowhere"],
            3,
            "nowhere` cannot be read: No such file",
        ),
    ],
)
def test_what_is_wrong_is_said_in_words(
    tmp_path: Path,
    words: list[str],
    code: int,
    why: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert why in refused([*words, "--out", str(tmp_path)], code, monkeypatch, capsys)


def test_the_gateway_never_sees_locust() -> None:
    shown = subprocess.run(
        [sys.executable, "-c", "import sys, gateway.cli.main, gateway.serve; print(*sys.modules)"],
        cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=True,
        env={**os.environ, "PYTHONPATH": ""},
    ).stdout.split()  # fmt: skip

    assert not {"locust", "gevent"} & set(shown)


def test_a_place_that_results_cannot_be_written_into_is_said_before_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = refused(["--out", "/dev/null/results"], 3, monkeypatch, capsys)
    assert "results cannot be written into `/dev/null/results`: Not a directory" in told


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--seconds", "-1"], "must be a whole number of 1 or more"),
        (["--count", "0"], "must be a whole number of 1 or more"),
        (["--lanes", "many"], "must be a whole number of 1 or more"),
        (["--workers", "-1"], "must be a whole number of 0 or more"),
        (["--flood", "0"], "must be a whole number of 1 or more"),
        (["--factor", "0"], "must be more than 0"),
        (["--factor", "nan"], "must be a number of 0 or more"),
        (["--spread", "-1"], "must be a number of 0 or more"),
        (["--calm", "inf"], "must be a number of 0 or more"),
        (["--port", "70000"], "must be a number from 0 to 65535"),
    ],
)
def test_numbers_that_no_run_can_have_are_wrong_use(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run.parser().parse_args(words)
    assert ended.value.code == 2
    assert why in capsys.readouterr().err
