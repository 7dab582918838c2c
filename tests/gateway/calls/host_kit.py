"""What host calls need of the world, on a table: a policy that a test gives, remembered answers, connectors by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
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
