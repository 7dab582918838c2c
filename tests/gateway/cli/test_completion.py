"""Shell completion: the scripts that are shown and installed, used by a real bash."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
BASH = shutil.which("bash")

pytestmark = pytest.mark.skipif(
    BASH is None or not (BIN / "tieline").exists(), reason="needs bash, and `tieline` beside the interpreter"
)

COMPLETE = (
    'COMP_WORDS=({words}); COMP_CWORD={at}; _tieline_completion tieline; printf "%s\\n" "${{COMPREPLY[@]}}"'
)


def bash(script: str, home: Path, **more: str) -> str:
    """Run a script in a bash that has nothing of the user's own, and return what it prints."""
    # Two commands at least, so that the shell is there to be seen as the program's parent.
    done = subprocess.run(
        ["bash", "--norc", "-c", f"{script}\n:"],
        env={"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(home), "SHELL": "/bin/bash", **more},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def completed(words: str, at: int, *, after: str, home: Path) -> list[str]:
    """Return what bash would offer for the word at `at`, after it has read `after`."""
    return bash(f"{after}\n{COMPLETE.format(words=words, at=at)}", home).split()


def test_the_completion_that_is_shown_completes_commands_options_and_values(tmp_path: Path) -> None:
    shown = bash("tieline --show-completion", tmp_path)
    assert "complete -o default -F _tieline_completion tieline" in shown
    assert completed("tieline fra", 1, after=shown, home=tmp_path) == ["frames"]
    assert completed("tieline frames --foll", 2, after=shown, home=tmp_path) == ["--follow"]
    assert completed("tieline frames --kind resp", 3, after=shown, home=tmp_path) == ["response"]


def test_the_completion_that_is_installed_is_there_in_the_next_shell(tmp_path: Path) -> None:
    bash("tieline --install-completion", tmp_path)
    assert completed("tieline tool", 1, after=(tmp_path / ".bashrc").read_text(), home=tmp_path) == ["tools"]


@pytest.mark.parametrize(("shell", "says"), [("zsh", "compdef"), ("fish", "complete --command tieline")])
def test_other_shells_have_theirs(shell: str, says: str, tmp_path: Path) -> None:
    assert says in bash("tieline", tmp_path, _TIELINE_COMPLETE=f"source_{shell}")
