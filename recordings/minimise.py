"""The smallest recording that still fails in the same way, found by trying smaller ones.

Owns the trials: which part is left out next, the writing of candidates, and the record of what was tried. Whether a
candidate fails is the oracle's business.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec

from recordings.ddmin import ddmin
from recordings.errors import Code, RecordingError
from recordings.fork import stored, with_body, writing
from recordings.frame import Frame
from recordings.header import Header
from recordings.reader import Recording
from recordings.reduction import STAGES, Parts, Stage
from recordings.renumber import Renumbering
from recordings.wireids import WireIds, with_ids

Oracle: TypeAlias = Callable[[Path], str | None]
"""Given a recording: in which way it fails, or None where it does not."""

MOST_RUNS = 1_000
"""How often the oracle is asked unless something else is said."""
ROUNDS = 3
"""How often all stages are gone through: what the last one leaves out may make more of the first unneeded."""


class DoesNotFailError(RecordingError):
    """The oracle finds nothing wrong with the whole recording."""

    code: Code = "invalid_request"


class Step(NamedTuple):
    """How far it is: for those who watch."""

    stage: Stage
    runs: int
    frames: int
    """Frames of the smallest recording so far, of `of`."""
    of: int


Progress: TypeAlias = Callable[[Step], None]


@dataclass(frozen=True, slots=True)
class Minimised:
    """The smallest recording that was found."""

    path: Path
    failure: str
    """In which way both fail."""
    frames: int
    of: int
    """Frames of the recording that was minimised."""
    calls: int
    of_calls: int
    lanes: int
    peers: int
    runs: int
    """How often the oracle was asked."""
    is_minimal: bool
    """Whether no single part that is left could go; False where the search ended before."""


def minimise(
    recording: Recording,
    out: Path,
    oracle: Oracle,
    *,
    scratch: Path,
    session: str,
    by: str = "",
    most_runs: int = MOST_RUNS,
    progress: Progress | None = None,
) -> Minimised:
    """Write to `out` the smallest recording found that fails as `recording` does.

    Lanes are left out first, then peers, then calls with everything that refers to them, then what was said besides.
    Candidates are written into `scratch`, one at a time. On `KeyboardInterrupt`, and after `most_runs` runs, the
    smallest one so far is written.

    Raises:
        DoesNotFailError: The oracle finds nothing wrong with all of it.
        RecordingError: The recording cannot be read, or nothing can be written.
    """
    search = _Search(recording, oracle, scratch=scratch, session=session, by=by, most_runs=most_runs)
    search.progress = progress
    search.start()
    try:
        is_minimal = search.run()
    except KeyboardInterrupt:
        is_minimal = False
    parts, gone = search.parts, search.out
    frames = search.write(out, gone)
    return Minimised(
        path=out,
        failure=search.failure,
        frames=frames,
        of=len(parts),
        calls=parts.calls(gone),
        of_calls=parts.calls(frozenset()),
        lanes=len(parts.lanes(gone)),
        peers=len(parts.peers(gone)),
        runs=search.runs,
        is_minimal=is_minimal,
    )


class _SpentError(Exception):
    """The oracle may not be asked any more."""


class _Search:
    def __init__(
        self,
        recording: Recording,
        oracle: Oracle,
        *,
        scratch: Path,
        session: str,
        by: str,
        most_runs: int,
    ) -> None:
        self._recording = recording
        self._oracle = oracle
        self._scratch = scratch
        self._session = session
        self._by = by
        self._most_runs = most_runs
        self._known: dict[frozenset[int], bool] = {}
        self.progress: Progress | None = None
        self._wire_ids = WireIds()
        self.parts = Parts(self._seen(recording))
        self.out: frozenset[int] = frozenset()
        """What the smallest recording so far leaves out."""
        self.runs = 0
        self.failure = ""

    def _seen(self, recording: Recording) -> Iterator[Frame]:
        for frame in stored(recording):
            self._wire_ids.see(frame)
            yield frame

    def start(self) -> None:
        """Find out in which way all of it fails. Raises `DoesNotFailError` where it does not."""
        failure = self._ask(frozenset())
        if failure is None:
            raise DoesNotFailError("it does not fail with this recording, so there is nothing to find")
        self.failure = failure

    def run(self) -> bool:
        """Go through the stages until nothing more can go, and say whether that point was reached."""
        try:
            for _ in range(ROUNDS):
                before = self.out
                for stage in STAGES:
                    self._stage(stage)
                if self.out == before:
                    return True
        except _SpentError:
            return False
        return False

    def _stage(self, stage: Stage) -> None:
        start = self.out
        items = self.parts.items(stage, start)

        def holds(left: list[frozenset[int]]) -> bool:
            kept = set(left)
            gone = self.parts.closed(start.union(*(item for item in items if item not in kept)))
            if gone == start:
                return True
            return self._fails(stage, gone)

        ddmin(items, holds)

    def _fails(self, stage: Stage, gone: frozenset[int]) -> bool:
        """Whether the recording without these frames fails as all of it does; noted where it is the smallest."""
        known = self._known.get(gone)
        if known is None:
            if self.runs >= self._most_runs:
                raise _SpentError
            known = self._known[gone] = self._ask(gone) == self.failure
        if known and len(gone) > len(self.out):
            self.out = gone
        if self.progress is not None:
            self.progress(Step(stage, self.runs, len(self.parts) - len(self.out), len(self.parts)))
        return known

    def _ask(self, gone: frozenset[int]) -> str | None:
        self.runs += 1
        path = self._scratch / f"candidate-{self.runs}"
        try:
            self.write(path, gone)
            return self._oracle(path)
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def write(self, path: Path, gone: frozenset[int]) -> int:
        """Write the recording without some frames, and return how many of its frames are left."""
        recording = self._recording
        numbering = Renumbering(first=self.parts.first)
        ids = self._wire_ids.without(gone)
        missing: list[int] = []
        with writing(path, self._header(gone)) as recorder:
            frames = 0
            last = at = 0
            for frame in stored(recording):
                if frame.seq in gone:
                    continue
                made = numbering.kept(with_ids(with_body(recording, frame, missing), ids))
                recorder.append(made)
                last, at = made.seq, made.at
                frames += 1
            recorder.append(self._mark(last + 1, at))
        return frames

    def _header(self, gone: frozenset[int]) -> Header:
        """The header, without the peers that are gone."""
        header = self._recording.header
        seen, left = self.parts.peers(frozenset()).keys(), self.parts.peers(gone).keys()
        settings = dict(header.settings)
        if isinstance(settings.get("peers"), dict):
            settings["peers"] = {
                name: each for name, each in settings["peers"].items() if name in left or name not in seen
            }
        return msgspec.structs.replace(
            header,
            session=self._session,
            by=self._by or header.by,
            peers={name: each for name, each in header.peers.items() if name in left or name not in seen},
            settings=settings,
        )

    def _mark(self, seq: int, at: int) -> Frame:
        facts = {"event": "minimised", "session": self._recording.header.session, "of": len(self.parts)}
        return Frame(seq=seq, at=at, kind="mark", way="inside", flags=("synthetic",), x=facts)
