"""For tests of agents: a recording in the place of their services, in this process or behind a command.

`Replay` is the whole of it; the pytest plugin gives one to each test that asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gateway.testing.replay import Replay, ReplayFailedError

__all__ = ["Replay", "ReplayFailedError"]


def __getattr__(name: str) -> Any:
    # Every pytest run in an environment that has Tieline loads the plugin, and few use it.
    if name in __all__:
        from gateway.testing import replay

        return getattr(replay, name)
    raise AttributeError(name)
