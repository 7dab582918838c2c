"""What holds for every test of this folder: the gateways' state lies in the test's own directory."""

from tests.processes.gateway_kit import state

__all__ = ["state"]
