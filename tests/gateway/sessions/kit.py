"""A conversation over files that are lists, and short ways to ask it for something.

Owns no test.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from gateway.sessions import format as session_format
from gateway.sessions import ops
from gateway.sessions.conversation import Conversation, Done, Load
from gateway.sessions.files import Beginning, StoreError
from gateway.sessions.tree import Tree
from tests.gateway.sessions.steps import BEGAN

DIRECTORY = "/sessions"


class Kept:
    """Files as they would be on disk. Implements `Files`."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.fails = False

    def append(self, file: str, lines: Sequence[bytes], *, new: bool) -> None:
        if self.fails:
            raise StoreError("enospc", "no space left")
        assert new == (file not in self.files)
        self.files[file] = self.files.get(file, b"") + b"".join(line + b"\n" for line in lines)


class Talk:
    """One conversation. Each call is a millisecond after the one before it."""

    def __init__(self, directory: str = DIRECTORY, seed: str = "seed", most_bytes: int = 1 << 30) -> None:
        self.kept = Kept()
        beginning = Beginning(seed=seed, at_ms=BEGAN, cwd="/work", directory=directory)
        self.conversation = Conversation(beginning, self.kept, most_bytes=most_bytes)
        self._calls = 0

    @property
    def tree(self) -> Tree:
        return self.conversation.tree

    def done(self, op: str, salt: str = "", **params: Any) -> Done:
        """Do one operation."""
        self._calls += 1
        made = ops.read({"op": op, **params})
        result = self.conversation.serve(made, BEGAN + self._calls, salt or f"call {self._calls}")
        if isinstance(result, Load):
            file = next(name for name in self.kept.files if result.target in name)
            result = self.conversation.loaded(result, file, session_format.read(self.kept.files[file]))
        assert isinstance(result, Done)
        return result

    def ask(self, op: str, **params: Any) -> dict[str, Any]:
        """Do one operation, and give what an extension is told."""
        return msgspec.json.decode(msgspec.json.encode(self.done(op, **params).output))

    def say(self, text: str, role: str = "user") -> str:
        """Append a message; give its id."""
        said: dict[str, Any] = {"role": role, "content": [{"type": "text", "text": text}], "timestamp": 1}
        if role == "assistant":
            said |= {"provider": "p", "model": "m"}
        return str(self.ask("append_message", message=said)["id"])

    def on_disk(self) -> Tree:
        """The session as its file says."""
        assert self.conversation.file is not None
        file = session_format.read(self.kept.files[self.conversation.file])
        assert not file.notes
        return Tree(file.header, file.entries)
