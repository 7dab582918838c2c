"""Names of session files and of the directories that they lie in, as Pi makes them.

Owns the text of the names; nothing here looks at a disk.
"""

from __future__ import annotations

import re
from typing import Final

_SEPARATORS: Final = re.compile(r"[/\\:]")
SUFFIX: Final = ".jsonl"


def directory_of(cwd: str) -> str:
    """Return the name of the directory for the sessions of a working directory, which is absolute."""
    inner = cwd[1:] if cwd[:1] in ("/", "\\") else cwd
    return f"--{_SEPARATORS.sub('-', inner)}--"


def file_of(session: str, timestamp: str) -> str:
    """Return the name of a session's file. `timestamp` is the header's; both are safe in a name by then."""
    return f"{timestamp.replace(':', '-').replace('.', '-')}_{session}{SUFFIX}"
