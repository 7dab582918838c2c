"""Pi's own session manager as the reference: one process that answers questions about session files.

Owns the process alone. What it can be asked is in `tests/node/pi_sessions.mjs`.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gateway.sessions import context
from gateway.sessions.tree import Tree, as_json
from tests import tooling


class PiRefusedError(Exception):
    """Pi has said no; the message is its own."""


class Pi:
    """The process. Every question waits for its answer."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, question: str, **members: Any) -> Any:
        """Ask, and give the answer. Raises `PiRefusedError`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"ask": question, **members}) + "\n")
        self._process.stdin.flush()
        said = json.loads(self._process.stdout.readline())
        if "error" in said:
            raise PiRefusedError(said["error"])
        return said["ok"]


@contextmanager
def running() -> Generator[Pi]:
    """Run Pi's session manager."""
    program = [
        str(tooling.node()),
        str(tooling.HERE / "pi_sessions.mjs"),
        str(tooling.script("pi-session-manager")),
    ]
    with subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path.home()
    ) as one:
        try:
            yield Pi(one)
        finally:
            assert one.stdin is not None
            one.stdin.close()


def told(tree: Tree) -> dict[str, Any]:
    """What Pi tells of a session, as ours says it."""
    seen = context.context(tree) if tree.leaf is not None else None
    model = seen.settings.model if seen is not None else None
    return {
        "entries": [dict(entry.fields) for entry in tree.entries],
        "leaf": tree.leaf,
        "branch": [entry.id for entry in tree.branch()],
        "tree": as_json(tree.roots()),
        "labels": {id_: label.text for id_, label in tree.labels.items()},
        "name": tree.name,
        "context": {
            "messages": seen.messages if seen is not None else [],
            "thinkingLevel": seen.settings.thinking if seen is not None else "off",
            "model": {"provider": model.provider, "modelId": model.id} if model is not None else None,
        },
        "contextEntries": [entry.id for entry in context.context_entries(tree.branch())],
    }
