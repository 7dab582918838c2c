"""Host calls for tests: a session over a folder, a policy that allows what a test names, and the work made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gateway.calls.host.bounds import USUAL, Bounds
from gateway.policy.capability import Need, need_of
from gateway.policy.decide import Decision, Facts, decide
from gateway.policy.model import PROFILES, Policy, Rule
from gateway.policy.paths import Root
from gateway.policy.reach import Reach
from gateway.policy.rules import Rules
from gateway.protocol.errors import Fault
from gateway.runtime.host.base import Emit, HostFault, Work, serve
from gateway.runtime.host.beneath import Folders
from gateway.runtime.host.registry import Ports, connectors

ALL = PROFILES["full-auto"]


def folders_of(path: Path, *, by_kernel: bool = True, more: Sequence[Root] = ()) -> Folders:
    """A session's folders: one root."""
    return Folders([Root(id="project", path=str(path.resolve())), *more], by_kernel=by_kernel)


def with_rules(*rules: Rule) -> Policy:
    """A policy that allows everything but for what some rules say."""
    return Policy(profile="full-auto", mode="strict", default_caps=(), deny_caps=(), rules=rules)


class Session:
    """Serves host calls of one extension over one folder."""

    def __init__(
        self, folders: Folders, policy: Policy = ALL, bounds: Bounds = USUAL, ports: Ports | None = None
    ) -> None:
        self.folders = folders
        self.rules = Rules(policy)
        self.bounds = bounds
        self.connectors = connectors(ports or Ports())
        self.chunks: list[dict[str, Any]] = []

    def judge(self, need: Need) -> Decision:
        """What the policy says about a need of the extension `ext`."""
        return decide(self.rules, Facts(extension="ext", need=need, standing="declared"))

    def work(self, method: str, params: Mapping[str, Any], deadline_s: float = 20.0) -> Work:
        """The work of one call, allowed or not."""
        decision = self.judge(need_of(method, params, self.folders.roots))
        return Work(
            extension="ext", method=method, params=params, decision=decision,
            reach=Reach(decision, self.judge), folders=self.folders, deadline_s=deadline_s,
            bounds=self.bounds, call_id="hc-1", session="s-1",
        )  # fmt: skip

    async def call(self, method: str, deadline_s: float = 20.0, /, **params: Any) -> dict[str, Any]:
        """Serve a call; chunks go to `chunks`."""
        return await serve(self.connectors, self.work(method, params, deadline_s), self.emit)

    async def emit(self, output: dict[str, Any]) -> None:
        """Take a chunk."""
        self.chunks.append(output)

    async def fault(self, method: str, deadline_s: float = 20.0, /, **params: Any) -> Fault:
        """Serve a call that must fail, and return how."""
        try:
            output = await self.call(method, deadline_s, **params)
        except HostFault as raised:
            return raised.fault
        raise AssertionError(f"no fault, but {output}")


async def ignore(output: dict[str, Any]) -> None:
    """An `Emit` for who wants no chunks."""


IGNORE: Emit = ignore
