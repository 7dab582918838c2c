"""The extensions of the documentation, put where a gateway finds them: in Python, in JavaScript on Node, in a shell.

Owns the places and the environment of a `tieline` command that has them alone.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.processes.gateway_kit import ROOT
from tests.tooling import node

EXAMPLES = ROOT / "docs" / "examples" / "extensions"
NAMES = ("guard", "stamp", "todo")
PATIENT = "[extensions.hooks]\ntimeout_ms = 20000\n"
"""A configuration that gives hooks time that no busy machine uses up."""


def installed(folder: Path, names: Sequence[str] = NAMES) -> dict[str, str]:
    """Put examples into the user's folder of extensions; return what the environment is then."""
    agent = folder / "agent"
    for name in names:
        shutil.copytree(EXAMPLES / name, agent / "extensions" / name)
    path = os.pathsep.join([str(node().parent), os.environ.get("PATH", "")])
    return {"PI_CODING_AGENT_DIR": str(agent), "PATH": path}
