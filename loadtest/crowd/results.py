"""The results of a run while it goes on and at its end: progress on stderr, and files that are whole at any moment.

Owns the sum over processes, the clock of the run, and what lies in the directory of the results. How a report looks is
`report`'s business, what a figure is called `tally`'s.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import msgspec

from loadtest.crowd.budgets import Verdict
from loadtest.crowd.report import Outcome, Tick, as_csv, as_html, as_text, course_csv, faults_csv
from loadtest.crowd.tally import Tally

FILES = (
    ("figures.csv", "the figures above, in full"),
    ("figures.json", "the same with the whole distributions, for programs"),
    ("course.csv", "a row a second"),
    ("failures.csv", "why calls failed"),
    ("locust.html", "locust's own report, with charts, in whole milliseconds"),
    ("locust.json", "locust's own figures"),
    ("gateway.log", "what the gateway has said"),
)
BEGUN = "figures.json"
"""The first file that is there."""
KEEP_S = 2.0
"""How often what there is so far is written."""


class Results:
    """What one run has come to so far."""

    def __init__(self, out: Path, command: str, about: str, *, calm_s: float = 0.0) -> None:
        out.mkdir(parents=True, exist_ok=True)
        self.out = out
        self.trouble = ""
        self._command = command
        self._about = about
        self._calm_s = calm_s
        self._tally = Tally()
        self._recent = Tally()
        self._ticks: list[Tick] = []
        self._began: float | None = None
        self._seconds: float | None = None
        self._users = 0
        self._told = 0.0
        self._kept = 0.0

    @property
    def is_running(self) -> bool:
        """Whether users are at work."""
        return self._began is not None and self._seconds is None

    @property
    def seconds(self) -> float:
        """How long the run has lasted."""
        if self._seconds is not None:
            return self._seconds
        return 0.0 if self._began is None else time.monotonic() - self._began

    def begin(self) -> None:
        """The run begins now."""
        self._began = self._told = self._kept = time.monotonic()
        self._write(BEGUN, self._json([]))

    def stop(self, users: int) -> None:
        """Nothing is sent any more; what is in flight may still be added."""
        self._users = max(self._users, users)
        self._seconds = self.seconds

    def miss(self, why: str) -> None:
        """Something is missing from the results."""
        self.trouble = self.trouble or why

    def add(self, tally: Tally) -> None:
        """Add what a process has counted."""
        self._tally.merge(tally)
        self._recent.merge(tally)

    def tick(self, users: int) -> None:
        """Say how it goes, and keep what there is if it is time."""
        now = time.monotonic()
        self._users = max(self._users, users)
        recent, self._recent = self._recent.whole(), Tally()
        span = now - self._told
        self._told = now
        p50, p95 = recent.took.at(0.5), recent.took.at(0.95)
        tick = Tick(
            second=round(self.seconds, 3),
            users=users,
            calls_per_s=recent.took.count / span,
            failed_per_s=recent.failed / span,
            p50_ms=(p50 or 0) / 1000,
            p95_ms=(p95 or 0) / 1000,
        )
        self._ticks.append(tick)
        whole = self._tally.whole()
        p50_ms, p95_ms = ("-" if us is None else f"{us / 1000:.2f}" for us in (p50, p95))
        agents = "agent " if users == 1 else "agents"
        line = (
            f"{tick.second:5.0f} s  {users:4} {agents}  {whole.took.count:9,} calls  {tick.calls_per_s:8,.0f}/s  "
            f"p50 {p50_ms:>8} ms  p95 {p95_ms:>8} ms  {whole.failed:6,} failed"
        )
        sys.stderr.write(f"\r{line}" if sys.stderr.isatty() else f"{line}\n")
        sys.stderr.flush()
        if now - self._kept >= KEEP_S:
            self._kept = now
            self._write(BEGUN, self._json([]))

    def figures(self) -> dict[str, float]:
        """What budgets are held against."""
        return self._tally.figures(self.seconds, self._calm_s)

    def finish(self, verdicts: list[Verdict]) -> Outcome:
        """Write everything, and say how it went."""
        outcome = Outcome(
            command=self._command,
            about=self._about,
            users=self._users,
            seconds=self.seconds,
            tally=self._tally,
            verdicts=verdicts,
            ticks=self._ticks,
            trouble=self.trouble,
            calm_s=self._calm_s,
        )
        self._write("figures.csv", as_csv(self._tally, self.seconds, self._calm_s))
        self._write("course.csv", course_csv(self._ticks))
        self._write("failures.csv", faults_csv(self._tally.faults))
        self._write(BEGUN, self._json(verdicts))
        self._write("report.html", as_html(outcome, [file for file in FILES if self._is_there(file[0])]))
        if sys.stderr.isatty():
            sys.stderr.write("\n")
        try:
            sys.stdout.write("\n".join(as_text(outcome)) + f"\nresults: {self.out}/report.html\n")
            sys.stdout.flush()
        except OSError as fault:
            # The verdict stands whoever reads it: the exit code and the files have it.
            sys.stderr.write(f"warning: the output cannot be written: {fault.strerror}; see {self.out}\n")
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return outcome

    def _is_there(self, name: str) -> bool:
        """Whether a file is among the results: only a gateway that was started for the test has a log."""
        return not name.endswith(".log") or (self.out / name).exists()

    def _json(self, verdicts: list[Verdict]) -> str:
        found = {
            "command": self._command,
            "seconds": self.seconds,
            "calm_s": self._calm_s,
            "users": self._users,
            "trouble": self.trouble,
            "figures": self.figures(),
            "verdicts": [{"name": v.name, "kept": v.is_kept, "says": str(v)} for v in verdicts],
            "tally": self._tally,
            "ticks": self._ticks,
        }
        return msgspec.json.format(msgspec.json.encode(found), indent=1).decode() + "\n"

    def _write(self, name: str, text: str) -> None:
        part = self.out / f".{name}.part"
        part.write_text(text, encoding="utf-8")
        os.replace(part, self.out / name)
