"""What `tieline show` makes of the fields of a frame."""

from __future__ import annotations

from gateway.cli.show import lines_of


def test_each_member_of_a_decision_has_a_line_of_its_own_and_what_is_empty_has_none() -> None:
    facts = {
        "need": {"method": "fs", "tool": "", "paths": ["a", "b"], "hosts": []},
        "signals": [["x", 1], ["y", 2]],
    }
    assert lines_of("facts", facts) == ["need method fs, paths a, b", "signals x 1; y 2"]
    assert lines_of("trace", [["mode", "ask"], ["ui", "deny"]]) == ["mode ask", "ui deny"]


def test_a_plain_value_is_one_line() -> None:
    assert lines_of("at", 1_500_000_000) == ["1.500000 s"]
    assert lines_of("flags", ["synthetic", "late"]) == ["synthetic, late"]
    assert lines_of("would_deny", False) == ["no"]
