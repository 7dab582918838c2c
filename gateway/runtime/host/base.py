"""What every connector is given and what it gives back: the work, the chunks, the fault, and the one way to serve.

Owns that nothing is done without a decision that allows it, for exactly this call, and that every call ends in time
with a result or with one of the five codes. What a method does is its connector's; what may happen is `policy`'s.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, TypeVar

import msgspec

from gateway.calls.host.bounds import USUAL, Bounds
from gateway.policy.capability import Need, need_of
from gateway.policy.decide import Decision
from gateway.protocol.capabilities import CallError
from gateway.protocol.errors import Code, Fault, Outcome
from gateway.runtime.host.beneath import Folders

T = TypeVar("T")

Emit: TypeAlias = Callable[[dict[str, Any]], Awaitable[None]]
"""Gives a part of the output. Returns once there is room for another one, which is how a slow reader slows us."""


class HostFault(Exception):  # noqa: N818 - the word of the taxonomy, carried
    """A host call that did not end as asked. `fault` says why, as the extension is told."""

    def __init__(
        self,
        code: Code,
        message: str,
        reason: str,
        *,
        outcome: Outcome = "not_sent",
        advice: str = "",
        retryable: bool | None = None,
        **details: Any,
    ) -> None:
        super().__init__(message)
        self.fault = Fault(
            code=code, message=message, reason=reason, outcome=outcome, advice=advice, retryable=retryable,
            details=details,
        )  # fmt: skip


def system_fault(error: OSError, what: str, *, outcome: Outcome = "not_sent", **details: Any) -> HostFault:
    """Return `io` for what the system refused, with the POSIX name of its number in `details.errno`."""
    number = error.errno or 0
    name = errno.errorcode.get(number, "")
    said = error.strerror or "failed"
    return HostFault(
        "io", f"{what}: {said}", name.lower() or "failed", outcome=outcome, retryable=False,
        **({"errno": name} if name else {}), **details,
    )  # fmt: skip


def refused(error: CallError) -> HostFault:
    """Return `invalid_request` for a call of which nobody can say what it would do."""
    fault = HostFault("invalid_request", str(error), error.reason, retryable=False)
    fault.fault.details.update(error.details)
    return fault


def bad_params(message: str, **details: Any) -> HostFault:
    """Return `invalid_request` for params that nobody can serve."""
    return HostFault("invalid_request", message, "bad_params", retryable=False, **details)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One host call to be done. Everything that it is made of was there when it was decided about."""

    extension: str
    method: str
    params: Mapping[str, Any]
    """Decoded once: what was decided about is what is done."""
    decision: Decision
    reach: Callable[[Need], bool]
    """Whether the call may touch something besides what its params name: see `policy/reach.py`."""
    folders: Folders
    """The roots, opened. A relative path is beneath the first, where commands also run."""
    deadline_s: float
    """Seconds from now on that it may take altogether."""
    bounds: Bounds = USUAL
    call_id: str = ""
    session: str = ""
    correlation: Mapping[str, str] = field(default_factory=dict[str, str])
    """What else the host knows about it, for entries of the log: `tool_call_id`, `trace_id`, …"""

    def granted(self, form: type[T]) -> T:
        """Return the params in the form that a connector knows. Every connector begins with it.

        Raises:
            HostFault: `denied` without a decision that allows this very call, `invalid_request` if the params
                have another form.
        """
        need = self.decision.facts.need
        if self.decision.verdict != "allow" or self.decision.facts.extension != self.extension:
            raise HostFault("denied", f"`{self.method}` was not allowed", "no_verdict", retryable=False)
        try:
            needed = need_of(self.method, self.params, self.folders.roots)
        except CallError as error:
            raise refused(error) from error
        if needed != need:
            raise HostFault("denied", "what was allowed is another call", "no_verdict", retryable=False)
        try:
            return msgspec.convert(self.params, form, strict=True)
        except (msgspec.ValidationError, RecursionError) as error:
            raise bad_params(f"the params of `{self.method}` cannot be read: {error}") from error

    def may(self, need: Need) -> bool:
        """Whether something that was resolved may be touched. What cannot be told may not."""
        try:
            return need == self.decision.facts.need or self.reach(need)
        except Exception:  # noqa: BLE001 - whatever it is, nothing is allowed by it
            return False


class Connector(Protocol):
    """Serves one method of host calls, for all extensions. Keeps nothing of one call for another."""

    async def serve(self, work: Work, emit: Emit) -> dict[str, Any]:
        """Do the work and return its output, which follows whatever was given to `emit`.

        To cancel it is to cancel the task: it then ends what it has begun and leaves nothing running.

        Raises:
            HostFault: It could not be done.
        """
        ...


async def serve(connectors: Mapping[str, Connector], work: Work, emit: Emit) -> dict[str, Any]:
    """Serve a call by the connector of its method, within its time.

    Raises:
        HostFault: Whatever goes wrong. A fault of ours is `internal` and says nothing about us.
    """
    connector = connectors.get(work.method)
    if connector is None:
        raise HostFault(
            "invalid_request", f"nothing here serves `{work.method[:64]}`", "unknown_method", retryable=False
        )
    work.granted(dict[str, Any])
    if work.deadline_s <= 0:
        raise _late(work, "not_sent")
    limit = asyncio.timeout(work.deadline_s)
    try:
        async with limit:
            return await connector.serve(work, emit)
    except HostFault:
        raise
    except TimeoutError as error:
        if not limit.expired():
            raise system_fault(error, f"`{work.method}`", outcome="unknown") from error
        raise _late(work, "unknown") from error
    except OSError as error:
        raise system_fault(error, f"`{work.method}`", outcome="unknown") from error
    except Exception as error:
        raise HostFault(
            "internal", f"the connector of `{work.method}` failed", type(error).__name__, outcome="unknown",
            retryable=False,
        ) from error  # fmt: skip


def _late(work: Work, outcome: Outcome) -> HostFault:
    return HostFault(
        "timeout", f"`{work.method}` took longer than {work.deadline_s:g} s", "deadline", outcome=outcome
    )
