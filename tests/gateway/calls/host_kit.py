"""What host calls need of the world, on a table: a policy that a test gives, remembered answers, connectors by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from gateway.calls.call import Reply
from gateway.calls.host_call import Hosted
from gateway.policy.decide import Decision, Facts
from gateway.policy.grants import Grant, Grants, grant_of
from gateway.policy.model import Policy
from gateway.policy.paths import Root, Roots
from gateway.policy.rules import Rules
from gateway.protocol.errors import Fault
from gateway.sessions.files import Beginning, Loaded, StoreError

NOW = datetime(2026, 1, 2, tzinfo=UTC)
EXECUTABLE = "sha256:" + "e" * 64


class TableAuthority:
    """An authority whose world is a list. Implements `calls.ports.Authority`."""

    def __init__(self, policy: Policy) -> None:
        self.rules = Rules(policy)
        self.roots = Roots([Root(id="project", path="/project")])
        self.given: list[Grant] = []
        self.fails = False

    def known(self, hosted: Hosted, facts: Facts) -> tuple[Facts, str]:
        if self.fails:
            raise OSError("the grants cannot be read")
        grants = Grants(self.given)
        remembered = grants.remembered(
            facts.extension, facts.need, now=NOW, executable=EXECUTABLE, manifest=facts.manifest, session="s1",
            project="/project",
        )  # fmt: skip
        known = msgspec.structs.replace(
            facts, executable=EXECUTABLE, project="/project", session="s1", remembered=remembered
        )
        return known, grants.hash

    def keep(self, decision: Decision) -> None:
        grant = grant_of(decision, now=NOW)
        if grant is not None:
            self.given.append(grant)

    def keeps_open(self, hosted: Hosted) -> bool:
        return False

    def joins(self, hosted: Hosted) -> bool:
        return False


class ByHand:
    """A host call that the test serves. Implements `calls.ports.Served`."""

    def __init__(self, hosted: Hosted, settle: Callable[[], None]) -> None:
        self.hosted = hosted
        self._settle = settle
        self.credits: list[int] = []
        self.is_held = False
        self.is_cancelled = False

    def credit(self, count: int) -> None:
        self.credits.append(count)

    def hold(self, *, full: bool) -> None:
        self.is_held = full

    def cancel(self) -> None:
        self.is_cancelled = True

    def gives(self, **part: Any) -> None:
        self.hosted.gave(json.dumps(part).encode())
        self._settle()

    def ends(self, **output: Any) -> None:
        self.hosted.ended(Reply(result=json.dumps(output).encode()))
        self._settle()

    def fails(self, fault: Fault) -> None:
        self.hosted.ended(Reply(fault=fault))
        self._settle()


class TableKeeper:
    """Sessions whose files are bytes in a table, read when the test says so. Implements `calls.ports.Keeper`."""

    def __init__(self) -> None:
        self.beginning = Beginning(
            seed="seed", at_ms=1_764_000_000_000, cwd="/project", directory="/sessions"
        )
        self.files: dict[str, bytes] = {}
        self.is_full = False
        self.is_closed = False
        self.waiting: list[Callable[[], None]] = []

    def seen(self, line: bytes) -> bytes:
        return line

    def append(self, file: str, lines: Sequence[bytes], *, new: bool) -> None:
        if self.is_full:
            raise StoreError("enospc", f"the session `{file}`: no space left")
        self.files[file] = self.files.get(file, b"") + b"".join(line + b"\n" for line in lines)

    def load(self, target: str, then: Callable[[Loaded | StoreError], None]) -> None:
        found = [file for file in self.files if target in file]
        if found:
            loaded = Loaded(file=found[0], lines=self.files[found[0]].splitlines())
            self.waiting.append(lambda: then(loaded))
        else:
            self.waiting.append(
                lambda: then(StoreError("no_such_session", f"there is no session {target!r}"))
            )

    def list(self, limit: int, then: Callable[[list[dict[str, Any]] | StoreError], None]) -> None:
        self.waiting.append(lambda: then([{"file": file} for file in list(self.files)[:limit]]))

    def reads(self) -> None:
        """Let what is waited for be read."""
        self.waiting.pop(0)()

    def close(self) -> None:
        self.is_closed = True
