"""Numbers that no measurement can have are wrong use, said at once and in words, in every tool that measures."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from loadtest import arguments, hotpath

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("reads", "text", "value"),
    [
        (arguments.at_least_one, "1", 1),
        (arguments.at_least_one, "0", None),
        (arguments.at_least_one, "-1", None),
        (arguments.at_least_one, "1.5", None),
        (arguments.count, "0", 0),
        (arguments.count, "-1", None),
        (arguments.number, "0", 0.0),
        (arguments.number, "-0.1", None),
        (arguments.number, "nan", None),
        (arguments.number, "inf", None),
        (arguments.number, "many", None),
        (arguments.more_than_nothing, "0.1", 0.1),
        (arguments.more_than_nothing, "0", None),
        (arguments.port, "65535", 65535),
        (arguments.port, "65536", None),
    ],
)
def test_a_number_is_read_or_refused_in_words(
    reads: Callable[[str], float], text: str, value: float | None
) -> None:
    if value is not None:
        assert reads(text) == value
        return
    with pytest.raises(argparse.ArgumentTypeError, match="must be "):
        reads(text)


def test_no_tool_that_measures_takes_any_number_whatever() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in (ROOT / "loadtest").rglob("*.py")
        for line in path.read_text().splitlines()
        if re.search(r"type=(int|float)\b", line)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--in-flight", "300"], "300 calls of 300 bytes are more than a pipe of 65536 bytes holds"),
        (["--in-flight", "20", "--calls", "10"], "--calls 10 are fewer than come in one piece: 20"),
    ],
)
def test_what_the_hot_path_would_wait_for_for_ever_is_wrong_use(
    words: list[str], why: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["hotpath", *words])
    with pytest.raises(SystemExit) as ended:
        hotpath.main()
    assert ended.value.code == 2
    assert why in capsys.readouterr().err
