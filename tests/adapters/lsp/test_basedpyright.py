"""The language server adapter as a real process with a real server over the sample project, in both eras."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from mcp import Client

from tests.adapters.kit_client import ERAS, code, connected, data, run, text

MODULE = "adapters.lsp"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    subprocess.run([sys.executable, "-m", MODULE, "--write-sample", str(root)], check=True, timeout=20)
    (tmp_path / "secret.py").write_text("secret = 1\n")
    return root


def servers() -> list[psutil.Process]:
    """Language servers below this process."""
    found: list[psutil.Process] = []
    for process in psutil.Process().children(recursive=True):
        try:
            if "langserver.index" in " ".join(process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


def spots(found: dict[str, Any]) -> list[str]:
    return [f"{place['path']}:{place['line']}:{place['column']}" for place in found["places"]]


@pytest.mark.parametrize("era", ERAS)
def test_symbols_are_found_by_name_and_by_position_and_told_with_their_source(
    project: Path, era: str
) -> None:
    heard: list[str] = []

    async def report(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message or "")

    async def work() -> None:
        async with connected(era, MODULE, "--root", str(project)) as client:

            async def ask(name: str, **arguments: Any) -> dict[str, Any]:
                return data(await client.call_tool(name, arguments, progress_callback=report))

            money = await ask("definition", symbol="Money")
            assert spots(money) == ["shop/money.py:7:7"]
            assert money["places"][0]["text"] == "class Money:"
            assert money["complete"] is True
            [said] = money["servers"]
            assert (said["name"], said["readiness"], said["complete"]) == ("basedpyright", "ready", True)
            assert said["version"].startswith("1.")
            assert any("starting" in line for line in heard)

            uses = await ask("references", symbol="Money.plus")
            assert [spot.partition(":")[0] for spot in spots(uses)] == [
                "shop/basket.py",
                "shop/money.py",
                "shop/till.py",
            ]
            assert uses["complete"] is True

            # The line holds an emoji: in code units the column would be another.
            line = 'GREETING = "😀 Grüezi"'
            assert line in (project / "shop" / "till.py").read_text()
            shown = await ask("hover", path="shop/till.py", line=12, symbol="GREETING")
            assert "GREETING" in shown["content"]
            by_column = await ask(
                "definition", path="shop/till.py", line=12, column=shown["place"]["column"] + 2
            )
            assert spots(by_column) == ["shop/till.py:6:1"]

            symbols = await ask("document_symbols", path="shop/basket.py")
            assert ("add", "method", "Basket") in [
                (s["name"], s["kind"], s["container"]) for s in symbols["symbols"]
            ]

            wrong = await ask("diagnostics", severity="error")
            assert [(d["path"], d["code"]) for d in wrong["diagnostics"]] == [
                ("shop/till.py", "reportArgumentType")
            ]
            assert wrong["files"] == 4

    run(work())
    assert servers() == []


async def fails(client: Client, name: str, arguments: dict[str, Any], words: str, kind: str) -> None:
    result = await client.call_tool(name, arguments)
    assert code(result) == kind, text(result)
    assert words in text(result)


def test_what_cannot_be_found_is_said_with_what_is_there(project: Path) -> None:
    (project / "shop" / "other.py").write_text("class Money:\n    pass\n")

    async def work() -> None:
        async with connected("legacy", MODULE, "--root", str(project)) as client:
            for name, arguments, words, kind in (
                (
                    "definition",
                    {"path": "shop/till.py", "line": 3, "symbol": "Nope"},
                    "import Basket",
                    "invalid_request",
                ),
                (
                    "definition",
                    {"path": "shop/till.py", "line": 999, "column": 1},
                    "lines",
                    "invalid_request",
                ),
                ("definition", {}, "say a symbol", "invalid_request"),
                ("definition", {"path": "../secret.py", "symbol": "secret"}, "outside", "denied"),
                ("document_symbols", {"path": "/etc/passwd"}, "outside", "denied"),
                ("hover", {"path": "nothing.py", "symbol": "x"}, "No such file", "io"),
                (
                    "references",
                    {"symbol": "Money"},
                    "ambiguous: shop/money.py:7; shop/other.py:1",
                    "invalid_request",
                ),
            ):
                await fails(client, name, arguments, words, kind)

    run(work())


def test_a_change_on_the_disk_is_seen_by_the_next_question(project: Path) -> None:
    till = project / "shop" / "till.py"

    async def work() -> None:
        async with connected("legacy", MODULE, "--root", str(project)) as client:
            before = data(
                await client.call_tool("diagnostics", {"path": "shop/till.py", "severity": "error"})
            )
            assert len(before["diagnostics"]) == 1
            till.write_text(till.read_text().replace('count="2"', "count=2"))
            after = data(await client.call_tool("diagnostics", {"path": "shop/till.py", "severity": "error"}))
            assert after["diagnostics"] == []
            (project / "shop" / "extra.py").write_text(
                "from shop.money import Money\n\nNOTHING = Money(0).plus(Money(1))\n"
            )
            uses = data(await client.call_tool("references", {"symbol": "Money.plus"}))
            assert "shop/extra.py:3:20" in spots(uses)

    run(work())


def test_a_server_that_is_killed_is_told_and_started_again(project: Path) -> None:
    async def work() -> None:
        async with connected("legacy", MODULE, "--root", str(project)) as client:
            symbols = {"path": "shop/money.py"}
            assert data(await client.call_tool("document_symbols", symbols))["symbols"]
            [server] = servers()
            # Stopped, it cannot answer; and once a later call is refused, the earlier one is open at the server.
            server.send_signal(signal.SIGSTOP)
            call = asyncio.create_task(
                client.call_tool("references", {"path": "shop/money.py", "symbol": "plus"})
            )
            await fails(client, "document_symbols", {"path": "../x.py"}, "outside", "denied")
            server.kill()
            result = await call
            assert code(result) == "io"
            assert "basedpyright was ended by SIGKILL" in text(result)
            again = data(await client.call_tool("document_symbols", symbols))
            assert again["symbols"][0]["name"] == "Money"
            [other] = servers()
            assert other.pid != server.pid

    run(work())
    assert servers() == []


def test_the_server_dies_with_an_adapter_that_is_killed(project: Path) -> None:
    async def work() -> None:
        async with connected("legacy", MODULE, "--root", str(project)) as client:
            data(await client.call_tool("document_symbols", {"path": "shop/money.py"}))
            [server] = servers()
            adapter = server.parent()
            assert adapter is not None
            os.kill(adapter.pid, signal.SIGKILL)
            gone, alive = await asyncio.to_thread(psutil.wait_procs, [server], 10)
            assert (len(gone), alive) == (1, [])

    run(work())


def test_a_second_preset_says_what_it_finds_and_what_it_cannot_do(project: Path) -> None:
    (project / "shop" / "bad.py").write_text("import os\n")

    async def work() -> None:
        async with connected("legacy", MODULE, "--root", str(project), "--server", "ruff") as client:
            found = data(await client.call_tool("diagnostics", {"path": "shop/bad.py"}))
            assert [(d["line"], d["code"]) for d in found["diagnostics"]] == [(1, "F401")]
            assert [said["name"] for said in found["servers"]] == ["ruff"]
            for name in ("definition", "references"):
                await fails(
                    client,
                    name,
                    {"path": "shop/bad.py", "symbol": "os"},
                    f"ruff offers no {name}",
                    "invalid_request",
                )

    run(work())
