"""What is counted, summed and shown: figures by name, the page, the tables."""

from __future__ import annotations

import csv
import io
from html.parser import HTMLParser

import msgspec
import pytest

from loadtest.crowd.budgets import Budget, judge
from loadtest.crowd.report import Outcome, Tick, as_csv, as_html, as_text, course_csv, faults_csv, rows
from loadtest.crowd.script import ScriptError, parse
from loadtest.crowd.tally import FAULTS_KEPT, SESSION, Tally


def counted() -> Tally:
    tally = Tally()
    for us in range(1000, 2000, 10):
        tally.add("scripted", "tools/call echo", us)
    tally.add("scripted", "tools/call echo", 5000, "error <1>", lost=True)
    tally.add("scripted", SESSION, 90_000)
    for part, us in (("calm", 1000.0), ("chaos", 3000.0)):
        tally.add("bystander", f"same agent, {part}", us)
    return tally


def outcome(trouble: str = "") -> Outcome:
    tally = counted()
    verdicts = judge({"scripted.failed_share": Budget(most=0)}, tally.figures(2.0))
    ticks = [Tick(second, 4, 50, 0, 1, 2) for second in range(3)]
    return Outcome("python -m x", "about", 4, 2.0, tally, verdicts, ticks, trouble)


def test_figures_of_calls_leave_handshakes_out_but_count_their_failures() -> None:
    tally = counted()
    figures = tally.figures(2.0)

    assert figures["scripted.calls"] == 101
    assert figures["scripted.calls_per_s"] == 50.5
    assert figures["scripted.max_ms"] == 5
    assert figures["scripted.opening_p95_ms"] == pytest.approx(90, rel=0.01)
    assert figures["scripted.unanswered"] == 1
    tally.add("scripted", SESSION, 1, "no gateway")
    assert tally.figures(2.0)["scripted.failed_share"] == pytest.approx(2 / 103)


def test_a_bystander_is_compared_with_itself_before_the_trouble() -> None:
    figures = counted().figures(2.0)

    assert figures["bystander.same_agent_p95_ratio"] == pytest.approx(3, rel=0.02)


def test_calls_of_a_part_of_the_run_are_divided_by_that_part() -> None:
    """Of ten seconds, two were calm, and nothing was asked of bad peers in these."""
    tally = Tally()
    for name, count in (("same agent, calm", 40), ("same agent, chaos", 160), (SESSION, 3)):
        for _ in range(count):
            tally.add("bystander", name, 1000)
    for _ in range(16):
        tally.add("chaos", "stall", 500_000)
    tally.add("chaos", SESSION, 1000)

    assert {(kind, name): figures["calls_per_s"] for kind, name, figures in rows(tally, 10.0, 2.0)} == {
        ("bystander", "same agent, calm"): 20,
        ("bystander", "same agent, chaos"): 20,
        ("bystander", SESSION): 0.3,
        ("bystander", "all calls"): 20,
        ("chaos", "stall"): 2,
        ("chaos", SESSION): 0.1,
    }
    figures = tally.figures(10.0, 2.0)
    assert (figures["bystander.calls_per_s"], figures["chaos.calls_per_s"]) == (20, 2)
    assert tally.figures(1.0, 2.0)["chaos.calls_per_s"] == 0, "nothing but the calm had come"


def test_what_processes_counted_is_one_sum() -> None:
    total = Tally()
    for _ in range(2):
        total.merge(msgspec.json.decode(msgspec.json.encode(counted()), type=Tally))

    assert total.figures(2.0)["scripted.calls"] == 202
    assert total.faults == {"scripted, tools/call echo: error <1>": 2}


def test_endlessly_many_reasons_are_not_kept() -> None:
    tally = Tally()
    for number in range(1000):
        tally.add("scripted", "x", 1, f"error {number}")

    assert len(tally.faults) == FAULTS_KEPT + 1
    assert sum(tally.faults.values()) == 1000


class _Checked(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.fetched: list[str] = []

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "img", "iframe", "link"):
            self.fetched.append(tag)
        self.fetched += [
            str(value) for name, value in attrs if name in ("href", "src") and "://" in str(value)
        ]


def test_the_page_says_verdict_budgets_and_figures_and_fetches_nothing() -> None:
    page = _Checked()
    page.feed(as_html(outcome(), [("figures.csv", "all")]))
    words = " ".join(page.words)

    assert "FAILED: 1 of 1 budget broken" in words
    assert "scripted.failed_share: 0.009804, wanted at most 0: over by 0.009804" in words
    assert "error <1>" in words
    assert "scripted, tools/call echo" in words
    assert "calls a second" in words
    assert page.fetched == []


def test_an_empty_run_is_a_page_too() -> None:
    empty = Outcome("c", "a", 0, 0.0, Tally(), [])

    assert "Nothing was measured" in as_html(empty)
    assert as_text(empty)[-1] == "DONE: there is no budget for this"


def test_a_run_that_was_broken_off_says_so_whatever_its_figures() -> None:
    assert not outcome("interrupted").is_kept
    assert as_text(outcome("interrupted"))[-1] == "BROKEN OFF after 2.0 s: interrupted"


def test_the_tables_can_be_read_by_programs() -> None:
    tally = counted()
    lines = list(csv.DictReader(io.StringIO(as_csv(tally, 2.0))))

    assert [(row["kind"], row["name"]) for row in lines] == [
        ("bystander", "same agent, calm"),
        ("bystander", "same agent, chaos"),
        ("bystander", "all calls"),
        ("scripted", SESSION),
        ("scripted", "tools/call echo"),
    ]
    assert float(lines[-1]["p50_ms"]) == pytest.approx(1.5, rel=0.02)
    assert course_csv(outcome().ticks).splitlines()[1] == "0,4,50,0,1,2"
    assert faults_csv({"a, b": 1, "c": 3}) == 'count,why\n3,c\n1,"a, b"\n'


def test_a_script_is_read_and_a_wrong_one_refused() -> None:
    script = parse('[[call]]\ntool = "get"\narguments = { key = "a" }\nthink_ms = 5', "x.toml")

    assert msgspec.json.decode(script.call[0].body(7, "lane1"))["params"] == {
        "name": "get",
        "arguments": {"key": "a"},
        "_meta": {"io.tieline/lane": "lane1"},
    }
    for text, why in (("call = []", "x.toml is no script"), ("[[call]]\ntol = 1", "tol"), ("[", "no TOML")):
        with pytest.raises(ScriptError, match=why):
            parse(text, "x.toml")
