"""The documents say what is so: configurations are read, commands parsed, the tutorial walked, pages current.

Blocks are found by their language: `toml` is a `tieline.toml`, `json` with `mcpServers` a client's file, and in `sh`
every line that begins with `tieline` is a command of ours.
"""

from __future__ import annotations

import ast
import html
import json
import re
import shlex
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from gateway.calls import fetches, flows, suspend
from gateway.cli import output
from gateway.cli.main import application, main
from gateway.config import parse
from gateway.protocol import mcp
from loadtest.crowd.budgets import changed
from loadtest.crowd.script import parse as parse_script
from loadtest.run import KINDS, in_vain
from loadtest.run import parser as load_options
from tests.picture import ASKED_SHOP, SHOP, drawn, folded
from tests.processes.gateway_kit import program
from tests.reference_pages import PAGES, REFERENCE

ROOT = Path(__file__).parents[1]
PAGES_OF_OURS = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
GUARANTEES = ROOT / "docs" / "explanation" / "guarantees.md"
FAULTS = ROOT / "docs" / "explanation" / "faults.md"
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())


class AnyVariable(dict[str, str]):
    """An environment in which every variable is set."""

    def __missing__(self, name: str) -> str:
        return f"value-of-{name}"

    def get(self, key: str, default: Any = None) -> Any:
        del default
        return self[key]

    def __contains__(self, key: object) -> bool:
        return True


def blocks(language: str) -> Iterator[Any]:
    for page in PAGES_OF_OURS:
        for number, body in enumerate(
            re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.M | re.S)
        ):
            yield pytest.param(body, id=f"{page.relative_to(ROOT)}-{number}")


def joined(text: Any) -> list[str]:
    """The lines of a shell, with those put together that end in a backslash."""
    return str(text).replace("\\\n", " ").splitlines()


def commands() -> Iterator[Any]:
    for block in blocks("sh"):
        for line in str(block.values[0]).splitlines():
            if line.startswith("tieline "):
                yield pytest.param(line, id=f"{block.id}: {line}")


@pytest.fixture(autouse=True)
def _keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    def get_password(service: str, user: str) -> str:
        return f"password of {user} for {service}"

    monkeypatch.setattr("keyring.get_password", get_password)


@pytest.mark.parametrize("text", list(blocks("toml")))
def test_every_configuration_in_the_documents_is_right(text: str) -> None:
    assert parse(text, path=ROOT / "tieline.toml", environ=AnyVariable()).notes == ()


@pytest.mark.parametrize("text", list(blocks("json")))
def test_every_client_configuration_in_the_documents_is_right(text: str) -> None:
    if "mcpServers" in text:
        assert parse(text, path=ROOT / ".mcp.json", environ=AnyVariable()).notes == ()
    else:
        assert all(json.loads(line)["jsonrpc"] == "2.0" for line in text.splitlines())


@pytest.mark.parametrize("line", list(commands()))
def test_every_command_in_the_documents_can_be_typed(line: str) -> None:
    command: Any = typer.main.get_command(application())
    words = shlex.split(line, comments=True)[1:]
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]

    command.make_context("tieline", words)


@pytest.mark.parametrize(
    "line",
    [line for block in blocks("sh") for line in joined(block.values[0]) if "-m loadtest.run" in line],
)
def test_every_load_test_in_the_documents_can_be_typed(line: str) -> None:
    words = shlex.split(line, comments=True)
    options = load_options().parse_args(words[words.index("loadtest.run") + 1 :])

    assert not in_vain(options)
    changed({}, options.budget, KINDS[options.users])


@pytest.mark.parametrize("text", list(blocks("toml calls.toml")))
def test_every_script_of_a_load_test_in_the_documents_is_right(text: str) -> None:
    assert parse_script(text, "calls.toml").call


def test_every_example_in_the_help_can_be_typed() -> None:
    for line in re.findall(r"^    \$ (tieline .*)$", (REFERENCE / "commands.md").read_text(), re.M):
        test_every_command_in_the_documents_can_be_typed(line.partition(" | ")[0])


@pytest.mark.parametrize("page", PAGES_OF_OURS, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())

    missing = [t for t in targets if "://" not in t and not (page.parent / t).exists()]
    assert missing == []


@pytest.mark.parametrize("name", list(PAGES))
def test_a_reference_page_is_what_the_code_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    assert (REFERENCE / name).read_text() == PAGES[name](), "run `make reference`"


@pytest.mark.parametrize("command", ["", "frames", "tools", "tools list"])
def test_the_page_of_commands_has_what_help_prints(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "argv", ["tieline", *command.split(), "--help"])
    main()

    printed = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines())
    title = f"## `{' '.join(['tieline', *command.split()])}`"
    assert f"{title}\n\n```text\n{printed}\n```\n" in (REFERENCE / "commands.md").read_text()
    assert "-h, --help" in printed


@pytest.mark.parametrize(
    "held_by", re.findall(r"`(tests/[^`]*::[^`]*)`", GUARANTEES.read_text() + FAULTS.read_text())
)
def test_what_holds_a_promise_is_there(held_by: str) -> None:
    held_by, _, case = held_by.removesuffix("]").partition("[")
    path, *names = held_by.split("::")
    text = (ROOT / path).read_text()
    assert case in text, f"{path} has no case {case}"
    module = ast.parse(text)
    inside: list[ast.stmt] = module.body
    for name in names:
        found = [n for n in inside if isinstance(n, ast.ClassDef | ast.FunctionDef) and n.name == name]
        assert found, f"{name} is not in {path}"
        inside = found[0].body


def test_every_promise_has_something_that_holds_it() -> None:
    rows = [
        line for line in GUARANTEES.read_text().partition("## What holds it")[2].splitlines() if "|" in line
    ]
    assert len(rows) > 40
    assert all("`tests/" in row for row in rows[2:])


def test_every_fault_has_a_test_that_injects_it() -> None:
    rows = [line for line in FAULTS.read_text().splitlines() if line.startswith("| ")]
    faults = [row for row in rows if not row.startswith(("| fault |", "| --- "))]
    assert len(faults) > 40
    assert all("`tests/" in row for row in faults)


def test_the_exit_codes_are_those_of_the_code() -> None:
    codes = re.findall(r"^\| (\d+) \|", (REFERENCE / "exit-codes.md").read_text(), re.M)

    assert codes == [
        str(code)
        for code in (
            output.DONE,
            output.NO,
            output.WRONG_USE,
            output.BAD_INPUT,
            output.INTERRUPTED,
            output.INTERRUPTED + 11,
        )
    ]


def test_the_tutorial_goes_as_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "tutorial" / "first-recording.md").read_text()
    record, *rest = [line for line in page.splitlines() if line.startswith("tieline ")]
    said = re.findall(r"^```json\n(.*?)^```", page, re.M | re.S)[0]
    monkeypatch.setenv("TIELINE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")

    with subprocess.Popen(
        shlex.split(record), cwd=tmp_path, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as gateway:
        assert gateway.stdin is not None
        assert gateway.stdout is not None
        gateway.stdin.write(said)
        gateway.stdin.flush()
        answers = {
            answer["id"]: answer for answer in (json.loads(gateway.stdout.readline()) for _ in range(2))
        }
        gateway.stdin.close()
        assert gateway.wait(30) == 0
    assert answers.keys() == {1, 2}
    assert answers[2]["result"]["tools"]

    for line in rest:
        words = shlex.split(line)
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False)
        assert (done.returncode, done.stderr) == (0, ""), line


def test_the_compose_file_has_the_whole_thing() -> None:
    services = COMPOSE["services"]

    assert services.keys() == {"gateway", "nats", "postgres", "prometheus"}
    assert not any("ports" in service for service in services.values())
    assert {c["source"] for s in services.values() for c in s.get("configs", ())} == COMPOSE["configs"].keys()
    named = {
        v.split(":")[0] for s in services.values() for v in s.get("volumes", ()) if not v.startswith(".")
    }
    assert named == COMPOSE["volumes"].keys()


def test_the_gateway_of_the_compose_file_has_a_right_configuration() -> None:
    text = COMPOSE["configs"]["tieline"]["content"]
    config = parse(text, path=Path("/etc/tieline/tieline.toml"), environ={})

    assert config.listen.http is not None
    assert config.telemetry.prometheus is not None
    scraped = yaml.safe_load(COMPOSE["configs"]["prometheus"]["content"])["scrape_configs"][0]
    assert scraped["static_configs"][0]["targets"] == [f"127.0.0.1:{config.telemetry.prometheus.port}"]


def test_the_picture_shows_what_a_run_prints_and_fetches_nothing() -> None:
    picture = (ROOT / "docs" / "images" / "demo.svg").read_text()
    shown = html.unescape(picture).replace("\N{NO-BREAK SPACE}", " ")

    for part in (
        "tieline demo",
        "database",
        "lsp",
        "cancelled",
        "elicitation",
        "0 not as scripted.",
        "(sealed)",
    ):
        assert part in shown
    assert "wrong" not in shown
    assert set(re.findall(r"https?://[^\s\"')]+", picture)) <= {
        "http://www.w3.org/2000/svg",
        "https://www.textualize.io",
    }
    assert str(Path.home()) not in shown


def test_the_picture_is_drawn_from_the_output_of_the_demo(tmp_path: Path) -> None:
    output = f"gateway {tmp_path}/x\n\x1b[32mok\x1b[0m " + "long " * 40 + "\n97 frames in 8 s\nnot shown\n"

    shown = html.unescape(drawn(output, tmp_path)).replace("\N{NO-BREAK SPACE}", " ")

    assert "gateway demo/x" in shown
    assert "97 frames in 8 s" in shown
    assert "not shown" not in shown
    assert str(tmp_path) not in shown


DATABASES = (ROOT / "docs" / "howto" / "databases.md").read_text()
DATABASE_COMMANDS = re.findall(r"^(tieline-database --(?:write-sample|url).*)$", DATABASES, re.M)


def test_the_two_minutes_with_a_database_go_as_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    printed: list[str] = []
    for line in DATABASE_COMMANDS:
        words = shlex.split(line, comments=True)
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False)
        assert (done.returncode == 1) == line.endswith("# fails"), (line, done.stderr)
        printed.append(done.stdout + done.stderr)
    assert len(printed) == 7
    assert "orders(id INTEGER, customer_id INTEGER" in printed[1]
    assert "(more: rows limit, cursor 3." in printed[2]
    assert "not authorized (this connection only reads)" in printed[3]
    assert "hint: no column nam in products(id, name, price_cents)" in printed[4]
    assert "orders_by_customer" in printed[5]
    assert printed[6] == "2500 rows would change in shop\n"


def test_the_picture_of_the_page_about_databases_shows_what_its_commands_print() -> None:
    shown = html.unescape((ROOT / "docs" / "images" / "databases.svg").read_text()).replace("\xa0", " ")
    for asked in ASKED_SHOP:
        assert any(asked in command for command in DATABASE_COMMANDS)
        assert all(part in shown for part in folded(SHOP + asked))
    for part in (
        "Whistle",
        "cursor 3.",
        "this connection only reads",
        "hint: no column nam",
        "2500 rows would change",
    ):
        assert part in shown


FILES = Path(sys.executable).with_name("tieline-files")


def test_the_greeting_of_the_page_about_serving_is_answered(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "howto" / "serve.md").read_text()
    command = next(block for block in re.findall(r"^```sh\n(.*?)^```", page, re.M | re.S) if "curl" in block)
    words = shlex.split(command)
    headers = [words[at + 1] for at, word in enumerate(words) if word == "-H"]
    listen = {"http": {"port": 0}}
    with program(tmp_path, {"files": {"command": [str(FILES), str(tmp_path)]}}, listen=listen) as gateway:
        ready = json.loads((tmp_path / "ready.json").read_text())
        [url] = [place["url"] for place in ready["listeners"] if place["kind"] == "http"]
        assert url.replace(url.split(":")[2].split("/")[0], "8400") == words[1]
        token = (tmp_path / "state" / "token").read_text().strip()
        sent = dict(
            header.replace("$(cat ~/.local/state/tieline/token)", token).split(": ", 1) for header in headers
        )
        request = urllib.request.Request(url, words[words.index("--data") + 1].encode(), sent)
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert json.load(answer)["result"]["serverInfo"]["name"] == "tieline-files"
        del sent["Authorization"]
        refused = urllib.request.Request(url, request.data, sent)
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(refused, timeout=30)
    assert gateway.process.returncode == 0


def test_every_room_of_the_exchange_is_on_the_page_about_how_it_is_built() -> None:
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text()
    listed = re.findall(r"^\| `(\w+\.py)` \|", page, re.M)

    rooms = {path.name for path in (ROOT / "gateway" / "calls").glob("*.py")} - {"__init__.py"}
    assert sorted(listed) == sorted(rooms)


def test_what_the_pages_name_is_there() -> None:
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text()
    for name in re.findall(r"`((?:transports|runtime|recordings|config|protocol)/\w+\.py)`", page):
        assert any((ROOT / place / name).exists() for place in ("", "gateway")), name
    eras = (ROOT / "docs" / "explanation" / "eras.md").read_text()
    for key in (mcp.META_LANE, mcp.META_INPUT_KEY):
        assert f"**`{key}`**" in eras
    for number in (
        f"{suspend.GATHER_S * 1000:g} ms",
        f"at most {flows.MOST_ROUNDS} rounds",
        f"{fetches.MOST_PAGES} pages",
    ):
        assert number in eras
