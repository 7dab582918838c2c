"""The benchmark of hooks measures what it says: calls come to their end, asked about or not."""

from __future__ import annotations

import json
import sys

import pytest

from loadtest import hooks


@pytest.mark.parametrize("event", ["tool_call", "turn_end"])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_call_of_the_table_is_answered_whoever_hooks_it(event: str, count: int) -> None:
    table = hooks.Table(count, event)
    for _ in range(3):
        table.call()


def test_figures_are_printed_for_people_and_for_scripts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def at_once(_: object, __: object) -> float:
        return 1.0

    monkeypatch.setattr(hooks, "least_us", at_once)
    monkeypatch.setattr(sys, "argv", ["hooks", "--no-processes", "--json"])
    hooks.main()
    assert json.loads(capsys.readouterr().out)["asked"]["100"] == 1.0
    monkeypatch.setattr(sys, "argv", ["hooks", "--no-processes"])
    hooks.main()
    assert "99 further hooks for another event add 0.0 us" in capsys.readouterr().out
