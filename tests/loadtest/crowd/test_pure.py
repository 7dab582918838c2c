"""What decides in a load test waits for nothing, reads no clock and knows no locust."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

CROWD = Path(__file__).parents[3] / "loadtest" / "crowd"
PURE = ("budgets", "latency", "pacing", "plan", "report", "script", "tally", "voice")
SHELL = {
    "gevent",
    "locust",
    "time",
    "os",
    "socket",
    "subprocess",
    "threading",
    "pathlib",
    "random",
    "asyncio",
}


@pytest.mark.parametrize("name", PURE)
def test_a_pure_part_imports_nothing_that_waits(name: str) -> None:
    imported: set[str] = set()
    for node in ast.walk(ast.parse((CROWD / f"{name}.py").read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported.add(node.module.partition(".")[0])
            if node.module.startswith("loadtest.crowd."):
                assert node.module.rpartition(".")[2] in PURE

    assert not imported & SHELL
