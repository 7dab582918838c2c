"""Faults as the Pi protocol writes them, and back."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from gateway.calls.pi.errors import call_error, error, fault_of, is_retryable
from gateway.protocol import pi
from gateway.protocol.errors import Fault
from gateway.protocol.pi_messages import CODES, Error

faults = st.builds(
    Fault,
    code=st.sampled_from(CODES),
    message=st.text(st.characters(exclude_categories=("Cs",)), max_size=20),
    reason=st.sampled_from(("deadline", "peer_exited")),
    outcome=st.sampled_from(("not_sent", "completed", "unknown")),
    advice=st.sampled_from(("", "Retry")),
    retryable=st.booleans(),
    details=st.dictionaries(
        st.sampled_from(("errno", "capability", "index")), st.integers() | st.just("ENOENT")
    ),
)


@given(faults)
def test_a_fault_that_is_written_and_read_again_is_the_same(fault: Fault) -> None:
    assert fault_of(call_error(fault)) == fault
    written = pi.read(pi.write("1", error(fault))).body
    assert isinstance(written, Error)
    read = fault_of(written)
    assert (read.code, read.message, read.reason, read.details) == (
        fault.code, fault.message, fault.reason, fault.details
    )  # fmt: skip


def test_only_what_was_not_sent_may_be_tried_again_unless_somebody_knows_better() -> None:
    def fault(code: str, outcome: str, retryable: bool | None = None) -> bool:
        return is_retryable(Fault(code=code, message="m", reason="r", outcome=outcome, retryable=retryable))  # pyright: ignore[reportArgumentType]

    assert fault("io", "not_sent")
    assert not fault("io", "unknown")
    assert not fault("denied", "not_sent")
    assert fault("io", "unknown", True)
    assert call_error(Fault(code="io", message="m", reason="r")).retryable is True


def test_a_code_that_nobody_knows_is_internal_and_kept() -> None:
    fault = fault_of(Error(code="E_WEIRD", message="m"), "helper")

    assert (fault.code, fault.reason, fault.peer, fault.details) == (
        "internal", "extension_error", "helper", {"code": "E_WEIRD"}
    )  # fmt: skip


def test_details_do_not_decide_what_a_fault_says_of_itself() -> None:
    fault = Fault(code="denied", message="m", reason="out_of_scope", details={"reason": "x", "outcome": "y"})

    details = json.loads(pi.write("1", error(fault)))["payload"]["details"]
    assert details == {"reason": "out_of_scope", "outcome": "not_sent"}
