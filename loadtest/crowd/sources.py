"""Where plans come from: the reading of a recording's files."""

from __future__ import annotations

from pathlib import Path

from loadtest.crowd.plan import Plan, PlanError, plan_of
from recordings.errors import RecordingError
from recordings.reader import open_recording


def recording_in(path: Path) -> Path:
    """What a path means: the recording that it is, or the newest of those that lie in it."""
    if (path / "recording.json").exists():
        return path
    # Their names begin with the time.
    return max(
        (each.parent for each in path.glob("*/recording.json")), default=path, key=lambda each: each.name
    )


def plan_from(path: Path) -> Plan:
    """The agent of a recording.

    Raises:
        PlanError: It cannot be read, or there is no agent in it that a crowd can be made of.
    """
    try:
        recording = open_recording(path)
        core = recording.header.core
        if core is not None and core.dialect != "mcp":
            raise PlanError(
                f"the agent of {path} speaks {core.dialect}: only agents that speak MCP can be made a crowd"
            )
        return plan_of(recording, recording.body)
    except RecordingError as fault:
        raise PlanError(f"{path} cannot be played: {fault}") from None
    except OSError as fault:
        raise PlanError(f"{path} cannot be read: {fault.strerror or fault}") from None
