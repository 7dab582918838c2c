"""Running a command on one recording after another, to see whether it fails: what minimising and fault sweeps share.

Owns the process, its end, and what its failure is called.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
from pathlib import Path

from gateway.cli.output import CliError

CANDIDATE = "{}"
"""What stands for the path of a recording in a command."""


def candidate_words(option: str, command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise CliError(f"`{option}` cannot be read: {error}") from error
    if not any(CANDIDATE in word for word in words[1:]):
        raise CliError(
            f"`{option}` names no recording", hint="Put `{}` where the path of a recording belongs"
        )
    return words


def failure_with(words: list[str], candidate: Path, timeout: float, *, any_failure: bool) -> str | None:
    """In which way the command fails with a recording; None where it does not."""
    arguments = [words[0], *(word.replace(CANDIDATE, str(candidate)) for word in words[1:])]
    try:
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise CliError(f"`{words[0]}` cannot be run: {error.strerror}") from error
    try:
        code = process.wait(timeout)
    except subprocess.TimeoutExpired:
        _kill(process)
        failure = "no end in time"
    except BaseException:
        _kill(process)
        raise
    else:
        failure = None if code == 0 else f"exit code {code}" if code > 0 else signal.Signals(-code).name
    return "failure" if failure and any_failure else failure


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a command with all that it has started: it began a group of its own, and is not waited for yet."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
