"""A recorded session, written down frame by frame: what the core and its peers said, and to what."""

from __future__ import annotations

from typing import Any

import msgspec

from recordings.frame import Frame
from recordings.held import Held
from recordings.profile import BUILT_IN
from recordings.script import Script
from tests.recordings.recording_kit import frame

Message = dict[str, Any]


class Tape:
    """Frames, numbered from 0; each is a millisecond after the one before."""

    def __init__(self, peer: str = "fs") -> None:
        self.frames: list[Frame] = []
        self.peer = peer

    @property
    def script(self) -> Script:
        """What was written down, read for replay."""
        return Script(Held(self.frames), BUILT_IN)

    def add(self, kind: str, way: str, body: Message | bytes = b"", **fields: Any) -> int:
        """Write down any frame."""
        seq = len(self.frames)
        data = body if isinstance(body, bytes) else msgspec.json.encode({"jsonrpc": "2.0"} | body)
        self.frames.append(frame(seq, data, kind, way=way, **fields))
        return seq

    def opens(self, life: int = 1) -> int:
        """A peer is there, and has shaken hands."""
        seq = self.add("open", "inside", peer=self.peer, life=life, x={"life": life})
        self.add("ready", "inside", peer=self.peer, life=life, x={"era": "legacy"})
        return seq

    def asks(self, name: str = "read", lane: str = "", method: str = "tools/call", **more: Any) -> int:
        """The core makes a request; what is not named for the frame is an argument."""
        fields = {key: more.pop(key) for key in ("after", "peer", "parent") if key in more}
        params: Message = {"name": name, "arguments": more}
        body = {"id": len(self.frames), "method": method, "params": params}
        fields = {"peer": self.peer, "lane": lane or None, "method": method, "name": name, **fields}
        return self.add("request", "core>", body, id=len(self.frames), **fields)

    def answers(self, to: int, text: str = "done", **fields: Any) -> int:
        """The peer answers."""
        body = {"id": to, "result": {"content": [{"type": "text", "text": text}]}}
        return self._from_peer("response", body, id=to, re=to, **fields)

    def refuses(self, to: int, **fields: Any) -> int:
        """The peer answers with an error."""
        return self._from_peer(
            "error", {"id": to, "error": {"code": 1, "message": "no"}}, id=to, re=to, **fields
        )

    def questions(self, about: int | None, method: str = "roots/list", **fields: Any) -> int:
        """The peer asks the core."""
        body: Message = {"id": "q", "method": method, "params": {}}
        return self._from_peer("request", body, id="q", parent=about, method=method, **fields)

    def tells(self, method: str = "notifications/message", about: int | None = None, **fields: Any) -> int:
        """The peer says something unasked."""
        return self._from_peer(
            "notification", {"method": method, "params": {}}, parent=about, method=method, **fields
        )

    def _from_peer(self, kind: str, body: Message, **fields: Any) -> int:
        return self.add(kind, "peer>", body, peer=self.peer, **fields)

    def replies(self, to: int, result: Message, after: int | None = None) -> int:
        """The core answers a question."""
        body = {"id": 1, "result": result}
        return self.add("response", "core>", body, id=1, re=to, after=after, method=self.frames[to].method)

    def cancels(self, request: int, after: int | None = None) -> int:
        """The core takes a request back."""
        body = {"method": "notifications/cancelled", "params": {"requestId": request}}
        seq = self.add(
            "notification", "core>", body, re=request, after=after, method="notifications/cancelled"
        )
        self.add("drop", "inside", peer=self.peer, re=request, x={"reason": "enough"})
        return seq

    def ends(self) -> int:
        """The peer goes by itself."""
        return self.add("close", "inside", peer=self.peer, x={"reason": "exited", "message": "it has exited"})
