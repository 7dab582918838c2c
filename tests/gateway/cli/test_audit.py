"""`tieline audit`: which log it reads, what it prints, and how it ends."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from gateway.cli.audit import followed
from gateway.cli.main import main
from tests.gateway.protocol.test_log import VALIDATOR
from tests.gateway.telemetry.recorded import log_of, session

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv("PI_EXTENSION_LOG_DIR", str(tmp_path / "logs"))

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tieline", "audit", *map(str, arguments)])
        code = main()
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The log of a session that is called `test`, in its place."""
    (tmp_path / "logs").mkdir()
    place = tmp_path / "logs" / "test.jsonl"
    place.write_bytes(b"".join(log_of(session(tmp_path / "s"))))
    return place


def test_the_newest_log_is_read_where_none_is_named(run: Run, log: Path) -> None:
    code, out, err = run()
    assert code == 0
    assert str(log) in err
    lines = out.splitlines()
    assert lines[0].split() == ["time", "extension", "event", "call", "took", "what"]
    assert len(lines) == 12
    assert any("policy.decision" in line and "deny env deny_caps (env)" in line for line in lines)


def test_a_log_is_named_by_file_directory_or_session(run: Run, log: Path) -> None:
    for name in (log, log.parent, "test"):
        assert len(run(name, "--json")[1].splitlines()) == 10
    assert run("other")[0] == 2


def test_filters_choose_and_nothing_is_an_answer_too(run: Run, log: Path) -> None:
    code, out, _ = run("test", "--denied", "--json")
    assert code == 0
    assert [json.loads(line)["event"] for line in out.splitlines()] == ["policy.decision", "host_call.end"]
    assert len(run("test", "--call", "host-0", "--last", 2, "--json")[1].splitlines()) == 2
    assert run("test", "--extension", "nobody") == (1, "no such line\n", "")
    assert run("test", "--until", "1971-01-01T00:00:00Z", "--json")[0] == 0
    assert run("test", "--since", "1h", "--json")[0] == 1


@pytest.mark.parametrize("option", [("--since", "soon"), ("--level", "loud"), ("--follow", "--normalise")])
def test_what_means_nothing_is_wrong_use(run: Run, log: Path, option: tuple[str, ...]) -> None:
    del log
    assert run("test", *option)[0] == 2


def test_normalised_lines_are_the_same_in_every_run_and_still_entries(
    run: Run, log: Path, tmp_path: Path
) -> None:
    first = run(log, "--normalise")[1]
    other = tmp_path / "other.jsonl"
    other.write_bytes(log.read_bytes().replace(b'"run-1"', b'"run-2"').replace(b'"box"', b'"crate"'))
    assert run(other, "--normalise")[1] == first
    for line in first.splitlines():
        entry = json.loads(line)
        assert entry["ts"] == "<ts>"
        VALIDATOR.validate(entry | {"ts": "2026-01-01T00:00:00Z", "source": {"component": "runtime"}})


def test_a_log_is_held_against_its_recording(run: Run, log: Path, tmp_path: Path) -> None:
    assert run("--verify", tmp_path / "s") == (0, "10 lines, log and recording say the same\n", "")
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[1:]))
    code, out, _ = run("--verify", tmp_path / "s")
    assert code == 1
    assert "no line says `host_call.start` of `notes`, frame 0\n9 lines, 1 thing wrong\n" in out
    told = json.loads(run(log, "--verify", tmp_path / "s", "--json")[1])
    assert (told["lines"], len(told["wrong"])) == (9, 1)


def test_a_line_that_is_none_is_told_and_the_others_are_read(run: Run, log: Path) -> None:
    log.write_bytes(b"nonsense\n" + log.read_bytes() + b'{"half')
    code, out, err = run(log, "--json")
    assert (code, len(out.splitlines())) == (0, 10)
    assert f"{log}:1 is no `pi.ext.log.v1` entry" in err


def test_no_log_at_all_says_how_to_get_one(run: Run) -> None:
    code, _, err = run()
    assert code == 2
    assert "`log = true`" in err


def test_a_log_is_followed_line_by_line_while_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\ntw")
    more = [b"o\n", b"three\n"]

    def wait() -> None:
        with path.open("ab") as file:
            file.write(more.pop(0))

    assert list(islice(followed(path, wait), 3)) == [b"one\n", b"two\n", b"three\n"]
