"""Nothing is done without a decision for exactly this call, and every call ends in one of the five codes."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.policy.capability import Need
from gateway.policy.decide import Decision
from gateway.runtime.host.base import Emit, HostFault, Work, serve
from tests.gateway.runtime.host.kit import IGNORE, Session, folders_of


class Doer:
    """A connector that keeps what it was allowed to do."""

    def __init__(self, error: BaseException | None = None, *, forever: bool = False) -> None:
        self.done: list[Any] = []
        self.error = error
        self.forever = forever

    async def serve(self, work: Work, emit: Emit) -> dict[str, Any]:
        self.done.append(work.granted(dict[str, Any]))
        if self.error is not None:
            raise self.error
        if self.forever:
            await asyncio.Event().wait()
        return {"ok": True}


def session(path: Path) -> Session:
    return Session(folders_of(path))


def served(doer: Doer, work: Work) -> dict[str, Any]:
    return asyncio.run(serve({"env": doer, "fs": doer}, work, IGNORE))


def fault_of(doer: Doer, work: Work) -> tuple[str, str]:
    with pytest.raises(HostFault) as caught:
        served(doer, work)
    return caught.value.fault.code, caught.value.fault.reason


def test_an_allowed_call_is_served(tmp_path: Path) -> None:
    doer = Doer()
    assert served(doer, session(tmp_path).work("env", {"name": "HOME"})) == {"ok": True}
    assert doer.done == [{"name": "HOME"}]


@pytest.mark.parametrize("verdict", ["deny", "ask"])
def test_nothing_is_done_without_a_verdict_that_allows(tmp_path: Path, verdict: str) -> None:
    work = session(tmp_path).work("env", {"name": "HOME"})
    doer = Doer()
    refused = dataclasses.replace(work, decision=msgspec.structs.replace(work.decision, verdict=verdict))
    assert fault_of(doer, refused) == ("denied", "no_verdict")
    assert doer.done == []


def test_a_connector_called_past_the_gate_refuses_by_itself(tmp_path: Path) -> None:
    work = session(tmp_path).work("env", {"name": "HOME"})
    refused = dataclasses.replace(work, decision=msgspec.structs.replace(work.decision, verdict="deny"))
    with pytest.raises(HostFault):
        asyncio.run(Doer().serve(refused, IGNORE))


@pytest.mark.parametrize(
    ("method", "params"),
    [("env", {"name": "PATH"}), ("fs", {"op": "read", "path": "a"}), ("env", {"names": ["HOME", "PATH"]})],
)
def test_what_was_allowed_for_one_call_is_nothing_for_another(
    tmp_path: Path, method: str, params: dict[str, Any]
) -> None:
    work = session(tmp_path).work("env", {"name": "HOME"})
    doer = Doer()
    assert fault_of(doer, dataclasses.replace(work, method=method, params=params))[0] == "denied"
    assert doer.done == []


def test_what_was_allowed_for_one_extension_is_nothing_for_another(tmp_path: Path) -> None:
    work = session(tmp_path).work("env", {"name": "HOME"})
    assert fault_of(Doer(), dataclasses.replace(work, extension="other")) == ("denied", "no_verdict")


def test_a_method_that_nothing_serves_is_an_invalid_request(tmp_path: Path) -> None:
    assert fault_of(Doer(), session(tmp_path).work("http", {"url": "https://a.example"})) == (
        "invalid_request",
        "unknown_method",
    )


def test_a_call_ends_when_its_time_is_up(tmp_path: Path) -> None:
    doer = Doer(forever=True)
    assert fault_of(doer, session(tmp_path).work("env", {"name": "HOME"}, deadline_s=0.01)) == (
        "timeout",
        "deadline",
    )
    assert len(doer.done) == 1


def test_a_call_without_any_time_left_is_not_begun(tmp_path: Path) -> None:
    doer = Doer()
    assert fault_of(doer, session(tmp_path).work("env", {"name": "HOME"}, deadline_s=0)) == (
        "timeout",
        "deadline",
    )
    assert doer.done == []


def test_a_fault_of_ours_is_internal_and_tells_nothing(tmp_path: Path) -> None:
    work = session(tmp_path).work("env", {"name": "HOME"})
    with pytest.raises(HostFault) as caught:
        served(Doer(KeyError("/home/me/secret")), work)
    assert caught.value.fault.code == "internal"
    assert "secret" not in repr(caught.value.fault)


def test_what_the_system_refuses_has_its_posix_name(tmp_path: Path) -> None:
    work = session(tmp_path).work("env", {"name": "HOME"})
    with pytest.raises(HostFault) as caught:
        served(Doer(OSError(28, "No space left on device")), work)
    fault = caught.value.fault
    assert (fault.code, fault.reason, fault.details["errno"]) == ("io", "enospc", "ENOSPC")


def test_a_time_out_of_the_network_is_not_the_deadline(tmp_path: Path) -> None:
    assert fault_of(Doer(TimeoutError(110, "late")), session(tmp_path).work("env", {"name": "HOME"})) == (
        "io",
        "etimedout",
    )


def test_whoever_cancels_a_call_sees_it_cancelled(tmp_path: Path) -> None:
    async def scene() -> None:
        doer = Doer(forever=True)
        task = asyncio.create_task(
            serve({"env": doer}, session(tmp_path).work("env", {"name": "HOME"}), IGNORE)
        )
        while not doer.done:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scene())


def test_doubt_about_what_may_be_touched_is_a_no(tmp_path: Path) -> None:
    def broken(need: Need) -> bool:
        raise RuntimeError

    work = dataclasses.replace(session(tmp_path).work("fs", {"op": "read", "path": "a"}), reach=broken)
    need: Need = work.decision.facts.need
    assert work.may(need)
    assert not work.may(msgspec.structs.replace(need, paths=("b",)))
    assert isinstance(work.decision, Decision)
