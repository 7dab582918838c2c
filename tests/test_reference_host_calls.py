"""The page of host calls tells no error that the code does not give, and leaves out no method."""

from __future__ import annotations

import pytest

from gateway.protocol.capabilities import METHODS
from tests.reference_host_calls import ERRORS, ROOT, page

SOURCES = "\n".join(
    path.read_text()
    for folder in ("runtime/host", "calls", "calls/host", "policy", "protocol")
    for path in sorted((ROOT / "gateway" / folder).glob("*.py"))
)


@pytest.mark.parametrize("reason", [each for _, reasons, _ in ERRORS for each in reasons.split(", ") if each])
def test_every_reason_that_is_told_is_one_that_the_code_gives(reason: str) -> None:
    names = {
        reason,
        reason.replace("_", "-"),
    }  # those of processes are spelt otherwise until they are answers
    spawning = (ROOT / "gateway" / "runtime" / "spawning.py").read_text()
    assert any(f'"{name}"' in SOURCES + spawning for name in names)


def test_every_method_is_on_the_page() -> None:
    said = page("")
    assert [method for method in METHODS if f"`{method}`" not in said] == []
