COMMANDS""The command line: exit codes, the words of errors, and what is loaded before an agent is served."""

COMMANDSrom __future__ import annotations

COMMANDSmport json
COMMANDSmport subprocess
COMMANDSmport sys
COMMANDSrom pathlib import Path

COMMANDSmport pytest

COMMANDSrom gateway.cli.main import FAMILIES, main


@COMMANDSytest.fixture(autouse=True)
COMMANDSef _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
COMMANDS   monkeypatch.chdir(tmp_path)
COMMANDS   monkeypatch.setenv("TIELINE_STATE_DIR", str(tmp_path / "state"))


@COMMANDSytest.fixture
COMMANDSef tieline(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Tieline:
COMMANDS   return Tieline(monkeypatch, capsys)


COMMANDSlass Tieline:
COMMANDS   """Runs the command in this process: exit code, stdout, stderr."""

COMMANDS   def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
COMMANDS       self._monkeypatch = monkeypatch
COMMANDS       self._capsys = capsys

COMMANDS   def __call__(self, *arguments: str) -> tuple[int, str, str]:
COMMANDS       self._monkeypatch.setattr(sys, "argv", ["tieline", *arguments])
COMMANDS       code = main()
COMMANDS       out, err = self._capsys.readouterr()
COMMANDS       return code, out, err


COMMANDSef test_help_names_every_family_and_the_exit_codes(tieline: Tieline) -> None:
COMMANDS   code, out, err = tieline("--help")

COMMANDS   assert (code, err) == (0, "")
COMMANDS   for family in ("run", "record", "check", "status", "tools"):
COMMANDS       assert f"\n  {family} " in out
COMMANDS   assert "Exit codes: 0 done, 1 the answer is no, 2 wrong use, 3 bad input." in out
COMMANDS   assert "..." not in out.partition("Commands:")[2].replace("[ARGS]...", "")


@COMMANDSytest.mark.parametrize(
COMMANDS   "command", ["run", "record", "check", "status", "tools list", "tools diff", "tools accept"]
)
COMMANDSef test_each_commands_help_has_an_example(tieline: Tieline, command: str) -> None:
COMMANDS   code, out, _ = tieline(*command.split(), "--help")

COMMANDS   assert code == 0
COMMANDS   assert f"Examples:\n    $ tieline {command}" in out


COMMANDSef test_the_version_is_one_line(tieline: Tieline) -> None:
COMMANDS   assert tieline("--version") == (0, "tieline 0.1.0\n", "")


@COMMANDSytest.mark.parametrize(
COMMANDS   ("arguments", "code", "message"),
COMMANDS   [
COMMANDS       (
COMMANDS           "recrod",
COMMANDS           2,
COMMANDS           "error: No such command 'recrod'. Did you mean 'record'?\n\n"
COMMANDS           "hint: Run `tieline --help` for the options and an example\n",
COMMANDS       ),
COMMANDS       (
COMMANDS           "run --ready",
COMMANDS           2,
COMMANDS           "error: No such option: --ready (Possible options: --ready-file, --record)\n\n"
COMMANDS           "hint: Run `tieline run --help` for the options and an example\n",
COMMANDS       ),
COMMANDS       (
COMMANDS           "run",
COMMANDS           2,
COMMANDS           "error: there is no `tieline.toml` or `.mcp.json` here\n\n"
COMMANDS           "hint: Name a `tieline.toml`, or the JSON file with `mcpServers` of another client\n",
COMMANDS       ),
COMMANDS       (
COMMANDS           "run nowhere.toml",
COMMANDS           3,
COMMANDS           "error: `nowhere.toml` does not exist\n\n"
COMMANDS           "hint: Name a `tieline.toml`, or the JSON file with `mcpServers` of another client\n",
COMMANDS       ),
COMMANDS       (
COMMANDS           "record",
COMMANDS           2,
COMMANDS           "error: `tieline record` needs a server command, or `--url`\n\n"
COMMANDS           "hint: For example `tieline record -- npx some-server`\n",
COMMANDS       ),
COMMANDS       (
COMMANDS           "record --url http://127.0.0.1:1/mcp -- server",
COMMANDS           2,
COMMANDS           "error: `tieline record` needs either a command or `--url`, not both\n\n"
COMMANDS           "hint: For example `tieline record -- npx some-server`\n",
COMMANDS       ),
COMMANDS   ],
)
COMMANDSef test_wrong_use_is_one_sentence_with_a_hint(
COMMANDS   tieline: Tieline, arguments: str, code: int, message: str
)COMMANDS-> None:
COMMANDS   assert tieline(*arguments.split()) == (code, "", message)


COMMANDSef test_a_configuration_with_mistakes_ends_with_3_and_all_of_them(tieline: Tieline, tmp_path: Path) -> None:
COMMANDS   (tmp_path / "tieline.toml").write_text('[peers.a]\ncomand = ["x"]\n[limits]\nmax_sessions = 0\n')

COMMANDS   assert tieline("run", "tieline.toml") == (
COMMANDS       3,
COMMANDS       "",
COMMANDS       "error: `tieline.toml` has 2 mistakes\n\n"
COMMANDS       "  tieline.toml:2: `peers.a.comand` is not a known key; did you mean `command`?\n"
COMMANDS       "  tieline.toml:4: `limits.max_sessions` must be a whole number of 1 or more, found 0\n\n"
COMMANDS       "hint: Nothing was started; `docs/reference/config.md` lists every setting\n",
COMMANDS   )


COMMANDSef test_a_configuration_without_peers_is_not_run(tieline: Tieline, tmp_path: Path) -> None:
COMMANDS   (tmp_path / "tieline.toml").touch()
COMMANDS   code, out, err = tieline("run")

COMMANDS   assert (code, out) == (3, "")
COMMANDS   assert err.endswith("names no peers\n\nhint: Add a table `[peers.NAME]` with a `command` or a `url`\n")


COMMANDSef test_check_tells_mistakes_as_json_when_asked_to(tieline: Tieline, tmp_path: Path) -> None:
COMMANDS   (tmp_path / "tieline.toml").write_text("[limits]\nmax_sessions = 0\n")
COMMANDS   code, out, err = tieline("check", "tieline.toml", "--json")

COMMANDS   assert (code, err) == (3, "")
COMMANDS   assert json.loads(out) == {
COMMANDS       "ok": False,
COMMANDS       "mistakes": [
COMMANDS           {
COMMANDS               "file": "tieline.toml",
COMMANDS               "line": 2,
COMMANDS               "key": "limits.max_sessions",
COMMANDS               "message": "must be a whole number of 1 or more, found 0",
COMMANDS           }
COMMANDS       ],
COMMANDS   }


COMMANDSef test_a_dry_check_reads_the_file_and_says_what_does_nothing(tieline: Tieline, tmp_path: Path) -> None:
COMMANDS   (tmp_path / ".mcp.json").write_text('{"mcpServers": {"a": {"command": "x", "timeout": 60}}}')
COMMANDS   code, out, err = tieline("check", "--dry")

COMMANDS   assert code == 0
COMMANDS   assert out.endswith(".mcp.json` is right: 1 peer\n")
COMMANDS   assert err.endswith("`mcpServers.a.timeout` is a setting of another client and does nothing here\n")
COMMANDS   assert err.startswith("warning: ")


COMMANDSef test_status_ends_with_1_where_no_gateway_runs(tieline: Tieline) -> None:
COMMANDS   assert tieline("status") == (1, "no gateway runs\n", "")
COMMANDS   assert tieline("status", "--json") == (1, "[]\n", "")


COMMANDSef test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
COMMANDS   reader = subprocess.Popen(["true"], stdin=subprocess.PIPE)
COMMANDS   reader.wait(10)
COMMANDS   assert reader.stdin is not None
COMMANDS   command = [
COMMANDS       sys.executable,
COMMANDS       "-c",
COMMANDS       "import sys; from gateway.cli.main import main; sys.exit(main())",
COMMANDS       "--help",
COMMANDS   ]
COMMANDS   done = subprocess.run(command, stdout=reader.stdin, stderr=subprocess.PIPE, timeout=30, check=False)
COMMANDS   reader.stdin.close()

COMMANDS   assert done.stderr == b""


@COMMANDSytest.mark.parametrize("command", [["run", "nowhere.toml"], ["record"]])
COMMANDSef test_what_an_agent_waits_for_starts_without_the_option_parser_and_without_rich(
COMMANDS   command: list[str],
)COMMANDS-> None:
COMMANDS   program = (
COMMANDS       "import sys; from gateway.cli.main import main; main(); "
COMMANDS       "sys.exit(' '.join({'typer', 'rich', 'mcp', 'httpx2', 'keyring', 'watchfiles'} & sys.modules.keys()))"
COMMANDS   )
COMMANDS   done = subprocess.run(
COMMANDS       [sys.executable, "-c", program, *command], capture_output=True, text=True, timeout=30, check=False
COMMANDS   )

COMMANDS   assert done.stdout == ""
COMMANDS   assert done.stderr.splitlines()[-1] == ""


COMMANDSef test_every_module_with_commands_is_a_family() -> None:
COMMANDS   modules = (Path(__file__).parents[3] / "gateway" / "cli").glob("*.py")

COMMANDS   assert {path.stem for path in modules if "\ndef register(" in path.read_text()} <= set(FAMILIES)
