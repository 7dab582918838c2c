"""The command line: exit codes, the words of errors, and what is loaded before an agent is served."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.cli.main import FAMILIES, main
from recordings.extras import extra_hint


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIELINE_STATE_DIR", str(tmp_path / "state"))


@pytest.fixture
def tieline(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Tieline:
    return Tieline(monkeypatch, capsys)


class Tieline:
    """Runs the command in this process: exit code, stdout, stderr."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        self._monkeypatch.setattr(sys, "argv", ["tieline", *arguments])
        code = main()
        out, err = self._capsys.readouterr()
        return code, out, err


def test_help_names_every_family_and_the_exit_codes(tieline: Tieline) -> None:
    code, out, err = tieline("--help")

    assert (code, err) == (0, "")
    for family in ("run", "record", "check", "status", "tools"):
        assert f"\n  {family} " in out
    assert "Exit codes: 0 done, 1 the answer is no, 2 wrong use, 3 bad input." in out
    assert "..." not in out.partition("Commands:")[2].replace("[ARGS]...", "")


@pytest.mark.parametrize("group", ["tools", "extensions", "policy", "policy grants", "conformance"])
def test_the_help_of_a_group_says_of_each_command_all_that_it_begins_to_say(
    tieline: Tieline, group: str
) -> None:
    _, out, _ = tieline(*group.split(), "--help")
    assert "..." not in out.partition("Commands:")[2]


COMMANDS = [
    "demo", "run", "record", "replay", "verify", "faults", "check", "status", "recordings", "frames", "show", "doctor",
    "export", "import", "diff", "fork", "minimise", "rules", "conformance capture", "conformance check", "bench",
    "tools list", "tools diff", "tools accept", "extensions show", "extensions check", "extensions trust",
    "policy explain", "policy test", "policy replay", "policy grants list", "policy grants revoke", "audit",
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_each_commands_help_has_an_example(tieline: Tieline, command: str) -> None:
    code, out, _ = tieline(*command.split(), "--help")

    assert code == 0
    assert f"Examples:\n    $ tieline {command}" in out


def test_the_version_is_one_line(tieline: Tieline) -> None:
    assert tieline("--version") == (0, "tieline 0.1.0\n", "")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            "recrod",
            2,
            "error: No such command 'recrod'. Did you mean 'record', 'recordings'?\n\n"
            "hint: Run `tieline --help` for the options and an example\n",
        ),
        (
            "run --ready",
            2,
            "error: No such option: --ready (Possible options: --ready-file, --record)\n\n"
            "hint: Run `tieline run --help` for the options and an example\n",
        ),
        (
            "run",
            2,
            "error: there is no `tieline.toml` or `.mcp.json` here\n\n"
            "hint: Name a `tieline.toml`, or the JSON file with `mcpServers` of another client\n",
        ),
        (
            "run nowhere.toml",
            3,
            "error: `nowhere.toml` does not exist\n\n"
            "hint: Name a `tieline.toml`, or the JSON file with `mcpServers` of another client\n",
        ),
        (
            "check .",
            3,
            "error: `.` is a directory\n\n"
            "hint: Name a `tieline.toml`, or the JSON file with `mcpServers` of another client\n",
        ),
        (
            "record",
            2,
            "error: `tieline record` needs a server command, or `--url`\n\n"
            "hint: For example `tieline record -- npx some-server`\n",
        ),
        (
            "record --url http://127.0.0.1:1/mcp -- server",
            2,
            "error: `tieline record` needs either a command or `--url`, not both\n\n"
            "hint: For example `tieline record -- npx some-server`\n",
        ),
        (
            "replay session --http 99999",
            2,
            "error: Invalid value for '--http': Input should be less than or equal to 65535\n\n"
            "hint: Run `tieline replay --help` for the options and an example\n",
        ),
        (
            "replay . --junit nowhere/out.xml",
            3,
            "error: `nowhere/out.xml` cannot be written: there is no folder `nowhere`\n",
        ),
        (
            "replay . --record out --report out/deeper/report.json",
            3,
            "error: `out/deeper/report.json` cannot be written: there is no folder `out/deeper`\n",
        ),
        (
            "replay . --mode shadow --report report.json -- server",
            2,
            "error: `--report` means nothing in mode `shadow`\n\n"
            "hint: It is written of a replay, and there all is asked live\n",
        ),
        (
            "replay . --mode extend --record out -- server",
            2,
            "error: `--record` means nothing in mode `extend`\n\n"
            "hint: What is said goes into the recording itself there\n",
        ),
        (
            "verify . --junit nowhere/out.xml",
            3,
            "error: `nowhere/out.xml` cannot be written: there is no folder `nowhere`\n",
        ),
        (
            "conformance check x.json --junit nowhere/out.xml",
            3,
            "error: `nowhere/out.xml` cannot be written: there is no folder `nowhere`\n",
        ),
        (
            "record --url example",
            3,
            "error: `--url` must begin with `http://`, `https://`, `ws://` or `wss://` and a host\n",
        ),
    ],
)
def test_wrong_use_is_one_sentence_with_a_hint(
    tieline: Tieline, arguments: str, code: int, message: str
) -> None:
    assert tieline(*arguments.split()) == (code, "", message)


def test_a_configuration_with_mistakes_ends_with_3_and_all_of_them(tieline: Tieline, tmp_path: Path) -> None:
    (tmp_path / "tieline.toml").write_text('[peers.a]\ncomand = ["x"]\n[limits]\nmax_sessions = 0\n')

    assert tieline("run", "tieline.toml") == (
        3,
        "",
        "error: `tieline.toml` has 2 mistakes\n\n"
        "  tieline.toml:2: `peers.a.comand` is not a known key; did you mean `command`?\n"
        "  tieline.toml:4: `limits.max_sessions` must be a whole number of 1 or more, found 0\n\n"
        "hint: Nothing was started; `docs/reference/config.md` of the repository lists every setting\n",
    )


@pytest.mark.parametrize("command", ["run", "check", "check --dry", "tools list"])
def test_a_configuration_without_peers_is_not_used(tieline: Tieline, tmp_path: Path, command: str) -> None:
    (tmp_path / "tieline.toml").touch()
    code, out, err = tieline(*command.split())

    assert (code, out) == (3, "")
    assert err.endswith("names no peers\n\nhint: Add a table `[peers.NAME]` with a `command` or a `url`\n")


def test_a_check_says_which_extra_is_missing_as_a_run_would(
    tieline: Tieline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = '[peers.a]\ncommand = ["x"]\n[telemetry]\notlp_endpoint = "http://127.0.0.1:1"\n'
    (tmp_path / "tieline.toml").write_text(text)
    for name in [
        name for name in sys.modules if name.startswith(("opentelemetry", "gateway.telemetry.otlp"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter", None)
    told = f"`telemetry.otlp_endpoint` needs the extra `otel`: {extra_hint('otel')}"

    code, out, err = tieline("check", "--dry")
    assert (code, out) == (3, "")
    assert told in err

    code, out, err = tieline("check", "--dry", "--json")
    assert (code, err) == (3, "")
    assert told.endswith(json.loads(out)["mistakes"][0]["message"].partition(" (")[0])


def test_check_tells_mistakes_as_json_when_asked_to(tieline: Tieline, tmp_path: Path) -> None:
    (tmp_path / "tieline.toml").write_text("[limits]\nmax_sessions = 0\n")
    code, out, err = tieline("check", "tieline.toml", "--json")

    assert (code, err) == (3, "")
    assert json.loads(out) == {
        "ok": False,
        "mistakes": [
            {
                "file": "tieline.toml",
                "line": 2,
                "key": "limits.max_sessions",
                "message": "must be a whole number of 1 or more, found 0",
            }
        ],
    }


def test_a_dry_check_reads_the_file_and_says_what_does_nothing(tieline: Tieline, tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"a": {"command": "x", "timeout": 60}}}')
    code, out, err = tieline("check", "--dry")

    assert code == 0
    assert out.endswith(".mcp.json` is right: 1 peer\n")
    assert err.endswith("`mcpServers.a.timeout` is a setting of another client and does nothing here\n")
    assert err.startswith("warning: ")


@pytest.mark.parametrize("arguments", [[], ["tools"]])
def test_no_command_at_all_is_answered_with_the_help_alone(tieline: Tieline, arguments: list[str]) -> None:
    code, out, err = tieline(*arguments)

    assert (code, out) == (2, "")
    assert err.startswith(" ".join(["Usage: tieline", *arguments, "[OPTIONS] COMMAND [ARGS]..."]) + "\n")
    assert "error:" not in err
    assert "hint:" not in err
    _, help_text, _ = tieline(*arguments, "--help")
    assert err.rstrip().rstrip(".") == help_text.rstrip().rstrip(".")


def test_status_ends_with_1_where_no_gateway_runs(tieline: Tieline) -> None:
    assert tieline("status") == (1, "no gateway runs\n", "")
    assert tieline("status", "--json") == (1, "[]\n", "")


GOLDEN = Path(__file__).parents[2] / "recordings" / "golden" / "format-1" / "sealed"


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "command",
    [
        ["--help"], ["--version"], ["frames", "--help"], ["frames", GOLDEN], ["frames", GOLDEN, "--json"],
        ["show", GOLDEN, "1"], ["doctor", GOLDEN], ["doctor", GOLDEN, "--json"], ["recordings", GOLDEN.parent],
        ["export", GOLDEN, "--har"], ["diff", GOLDEN, GOLDEN], ["status"], ["status", "--json"],
        ["policy", "replay", GOLDEN], ["extensions", "show"], ["replay", GOLDEN, "--drive", "--json"],
    ],
    ids=lambda command: " ".join(map(str, command)).replace(str(GOLDEN), "R").replace(str(GOLDEN.parent), "Rs"),
)  # fmt: skip
def test_a_reader_that_leaves_early_ends_a_command_quietly_as_a_signal_would(
    command: list[str | Path], unbuffered: str
) -> None:
    program = "import sys; from gateway.cli.main import main; sys.exit(main())"
    code, told = without_a_reader([program, *map(str, command)], unbuffered)
    assert code == 141
    assert [line for line in told.splitlines() if not line.startswith(b"warning: ")] == []


def test_what_is_told_of_a_mistake_does_not_hide_that_the_reader_has_left() -> None:
    program = (
        "import sys; from gateway.cli.main import guarded; from gateway.cli.output import CliError\n"
        "def work():\n sys.stdout.write('a')\n raise CliError('no')\n"
        "sys.exit(guarded(work))"
    )
    assert without_a_reader([program], "") == (141, b"error: no\n")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", [["check", "nowhere.toml"], ["nonsense"], ["replay", GOLDEN, "--drive"]])
def test_errors_that_nobody_reads_end_a_command_in_that_way_too(
    command: list[str | Path], unbuffered: str
) -> None:
    program = "import sys; from gateway.cli.main import main; sys.exit(main())"
    assert without_a_reader([program, *map(str, command)], unbuffered, errors=True)[0] == 141


def without_a_reader(program: list[str], unbuffered: str, *, errors: bool = False) -> tuple[int, bytes]:
    """Run a program of Python whose output nobody reads, nor its `errors`; return its exit code and its stderr."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-c", *program],
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=writer if errors else subprocess.PIPE,
            timeout=60,
            check=False,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
    finally:
        os.close(writer)
    return done.returncode, done.stderr or b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize("command", [["--help"], ["status"], ["status", "--json"]])
def test_an_output_that_takes_no_more_is_one_sentence(command: list[str]) -> None:
    program = "import sys; from gateway.cli.main import main; sys.exit(main())"
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", program, *command], stdout=full, stderr=subprocess.PIPE, timeout=30, check=False
        )  # fmt: skip

    assert done.returncode == 3
    assert done.stderr == b"error: the output cannot be written: No space left on device\n"


@pytest.mark.parametrize("command", [["run", "nowhere.toml"], ["record"]])
def test_what_an_agent_waits_for_starts_without_the_option_parser_and_without_rich(
    command: list[str],
) -> None:
    program = (
        "import sys; from gateway.cli.main import main; main(); "
        "sys.exit(' '.join({'typer', 'rich', 'mcp', 'httpx2', 'keyring', 'watchfiles'} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *command], capture_output=True, text=True, timeout=30, check=False
    )

    assert done.stdout == ""
    assert done.stderr.splitlines()[-1] == ""


def test_a_start_does_without_the_extensions_of_typing_and_leaves_them_to_who_asks() -> None:
    program = (
        "import sys, typing; from gateway.cli.main import load_msgspec; load_msgspec(); import msgspec\n"
        "assert 'typing_extensions' not in sys.modules\n"
        "class Row(typing.TypedDict):\n"
        "    name: typing.Required[str]\n"
        "    size: typing.NotRequired[typing.Annotated[int, msgspec.Meta(ge=0)]]\n"
        "assert msgspec.convert({'name': 'a'}, Row) == {'name': 'a'}\n"
        "import typing_extensions\n"
        "class Late(typing_extensions.TypedDict):\n"
        "    name: typing_extensions.Required[str]\n"
        "    size: typing_extensions.NotRequired[int]\n"
        "assert msgspec.convert({'name': 'a'}, Late) == {'name': 'a'}\n"
        "for wrong in ({}, {'name': 'a', 'size': ''}):\n"
        "    for kind in (Row, Late):\n"
        "        try: msgspec.convert(wrong, kind)\n"
        "        except msgspec.ValidationError: continue\n"
        "        raise AssertionError(wrong)\n"
    )

    subprocess.run([sys.executable, "-c", program], timeout=30, check=True)


def test_what_an_agent_waits_for_loads_nothing_that_a_plain_start_has_no_use_for() -> None:
    program = (
        "import sys, gateway.cli.main, gateway.cli.run, gateway.cli.loop, gateway.serve, gateway.runtime.upkeep\n"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True
    )
    for_later = {
        # Reading, sealing and opening recordings.
        "recordings.reader", "recordings.sealing", "recordings.survey", "recordings.columns", "recordings.blobs",
        "recordings.lookup", "zstandard",
        # What packs archives, makes temporary files, finds programs, has its own randomness, or reads JSON again.
        "shutil", "tempfile", "random", "secrets", "hmac", "hashlib", "json", "zlib", "bz2", "lzma", "importlib.util",
        # What writes source and has it compiled, for each class: the start defines structs.
        "dataclasses",
        # What looks closer at bytes that hold a word of a secret's name or shape.
        "re2", "recordings.cutting", "recordings.marks", "bisect",
        # What makes objects of paths and takes URLs apart.
        "pathlib", "urllib.parse", "ipaddress", "ntpath",
        # What is refused, not shown to a person, or not there at all in most sessions.
        "gateway.calls.turned_away", "gateway.calls.declared", "unicodedata", "gateway.calls.registered",
        "gateway.calls.held", "gateway.calls.lookup", "gateway.calls.leaving", "gateway.calls.manners",
        "gateway.calls.odd_names", "fnmatch", "recordings.migrate", "gateway.runtime.null_tap",
        "gateway.protocol.canonical", "gateway.calls.ports", "gateway.sessions.files",
        # Mistakes, reloads, and what is told of them.
        "difflib", "gateway.config.lines", "tomllib", "gateway.runtime.control",
        "gateway.config.diff", "gateway.runtime.health", "gateway.runtime.reports", "gateway.runtime.trial",
        # Listeners and peers of other kinds.
        "http", "http.client", "httpx2", "websockets", "picows", "gateway.runtime.http_front", "transports.ws_link",
        "gateway.runtime.listening",
        "gateway.runtime.pi_core_link", "gateway.runtime.oauth",
        # What only is there where the configuration asks for it.
        "gateway.calls.hops", "gateway.runtime.observed", "gateway.calls.param_headers", "transports.unix",
        "opentelemetry", "gateway.telemetry.hub", "gateway.policy", "gateway.hooks", "gateway.replay", "sqlite3",
        "jsonschema", "yaml", "typer", "rich", "mcp", "keyring", "watchfiles", "multiprocessing", "email",
    }  # fmt: skip

    assert sorted(for_later & set(done.stdout.split())) == []


def test_a_gateway_that_writes_a_log_loads_nothing_that_reads_recordings_or_decides() -> None:
    program = (
        "import sys, gateway.serve, gateway.telemetry.hub, gateway.runtime.observed\nprint(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True
    )
    for_later = {
        "recordings.reader", "recordings.sealing", "zstandard", "dataclasses", "unicodedata", "jsonschema_rs",
        "gateway.policy.decide", "gateway.policy.manifest", "gateway.calls.ports", "gateway.sessions.files",
        "opentelemetry", "http.server",
    }  # fmt: skip

    assert sorted(for_later & set(done.stdout.split())) == []


def test_after_a_plain_start_every_module_can_be_loaded() -> None:
    program = (
        "import sys, pkgutil, importlib, gateway.cli.run, gateway.serve, gateway.runtime.upkeep\n"
        "import recordings, transports\n"
        "for package in (gateway, recordings, transports):\n"
        "    for found in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        # A program, which takes arguments; and what refuses where Python alone is asked for.
        "        if found.name != 'gateway.bench.extension' and not found.name.endswith('._speedups'):\n"
        "            importlib.import_module(found.name)\n"
        "print(len(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.stderr == ""
    assert int(done.stdout) > 500


def test_every_module_with_commands_is_a_family_and_tested_here() -> None:
    modules = (Path(__file__).parents[3] / "gateway" / "cli").glob("*.py")

    found = {path.stem.removesuffix("_") for path in modules if "\ndef register(" in path.read_text()}
    assert found == set(FAMILIES)
    assert found == {command.split()[0] for command in COMMANDS}
