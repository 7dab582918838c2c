"""The documented core that speaks Pi, before a real gateway whose extensions inject, block, modify and patch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.processes.extension_kit import PATIENT, installed
from tests.processes.gateway_kit import PATIENCE_S, ROOT, TIELINE
from tests.processes.replay_kit import environment, tieline

DRIVER = ROOT / "docs" / "examples" / "pi_core.py"
CONFIG = """\
[listen]
stdio_dialect = "pi"

[extensions]
discover = true

"""


def driven(folder: Path, env: dict[str, str], *arguments: str | Path) -> list[str]:
    """Let the driver play its script before a command of ours; return what it prints."""
    command = [sys.executable, str(DRIVER), "--", *TIELINE, *map(str, arguments)]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(folder) | env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_session_with_extensions_that_block_modify_and_inject_is_the_same_in_a_replay(
    tmp_path: Path,
) -> None:
    env = installed(tmp_path)
    (tmp_path / "tieline.toml").write_text(CONFIG + PATIENT)

    told = driven(tmp_path, env, "run", "tieline.toml", "--stdio", "--record", "kept")

    assert told == [
        "offered tools: count, guard_rules, todo_add",
        "offered slash_commands: todo",
        "offered event_hooks: before_agent_start, tool_call, tool_result",
        "offered shortcuts: ctrl+shift+y",
        "offered flags: todo-quiet",
        "/todo: - [ ] water the plants",
        "user: Tidy up, please",
        "injected todo: Still to do:",
        "- [ ] water the plants",
        "bash blocked: the command holds `rm -rf`",
        'bash called: {"command": "ls", "timeout": 60}',
        "bash gave: 'README.md\\nsrc\\n (3 lines)'",
        'todo_add called: {"what": "sweep the floor"}',
        "todo_add gave: '- [ ] sweep the floor (1 line)'",
        'count called: {"path": "."}',
        f"count gave: '{len(list(tmp_path.iterdir()))} (1 line)'",
    ]
    page = (ROOT / "docs" / "howto" / "pi-extensions.md").read_text()
    assert "\n".join(told[:-2]) in page
    (recording,) = (tmp_path / "kept").iterdir()
    (tmp_path / "TODO.md").unlink()

    assert driven(tmp_path, env, "replay", recording) == told
    again = tieline("replay", recording, "--drive", cwd=tmp_path)
    assert (again.returncode, "SAME" in again.stdout) == (0, True), again.stdout + again.stderr
    assert not (tmp_path / "TODO.md").exists()
