"""What is alike in many frames, encoded once for all of them.

Owns what is kept of that, and for how long. What differs from frame to frame is the tap's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from gateway.hooks.record import Form

MOST_WORDS = 4096
LONGEST_WORD = 256
"""Encoded names that are kept, and how long one may be; a peer that makes up more pays for each."""
_ONCE = frozenset({"open", "ready", "spawn", "exit", "close", "restart"})
_HANDSHAKE = frozenset({"initialize", "notifications/initialized", "server/discover"})
"""Kinds and methods of frames of which a life of a peer has one: their words are not kept."""
_LISTS = frozenset({"tools/list", "prompts/list", "resources/list", "resources/templates/list"})
"""What a peer is asked after its handshake, and again where it says that it has changed: not kept of peers either."""
BODY = b',"body":'

encode = msgspec.json.Encoder().encode


class Words(dict[tuple[str, ...], tuple[bytes, bytes, bool]]):
    """The fields before those that differ, those behind, and whether none of them can be a secret. By kind, peer,
    way, method, name and, where there are any, flags."""

    def __init__(self, suspects: Callable[[bytes], bool]) -> None:
        super().__init__()
        self.suspects = suspects
        self.forms: dict[tuple[str, ...], tuple[bytes, bytes, bool]] = {}
        """Whole frames of those words, what differs to be filled in: of a request, and of an answer; as `form` gives
        them. For itself, since a dict that has a class of ours is slower to be asked."""
        self.calls: dict[tuple[str, str], tuple[bytes, bool]] = {}
        """Those of requests to call a tool of a peer, by peer and tool, as `call` gives them."""
        self.answers: dict[str, tuple[bytes, bool]] = {}
        """Those of a peer's answers to such, as `answer` gives them."""

    def __missing__(self, alike: tuple[str, ...]) -> tuple[bytes, bytes, bool]:
        kind, peer, way, method, name, *flags = alike
        head = b'"kind":%b%b,"way":%b' % (
            encode(kind),
            b',"peer":' + encode(peer) if peer else b"",
            encode(way),
        )
        tail = b',"method":' + encode(method) if method else b""
        if name:
            tail += b',"name":' + encode(name)
        if flags:
            tail += b',"flags":' + encode(flags)
        encoded = head, tail + BODY, not self.suspects(b"{" + head + tail + b"}")
        if kind in _ONCE or method in _HANDSHAKE or (peer and method in _LISTS):
            return encoded
        if len(self) < MOST_WORDS and max(map(len, alike)) <= LONGEST_WORD:
            self[alike] = encoded
        return encoded

    def form(self, alike: tuple[str, ...]) -> tuple[bytes, bytes, bool]:
        """The forms of frames with these words and numbers for ids: for `seq`, `at`, `id`, `re` where it is an answer,
        `after` and the body. And whether none of the words can be a secret."""
        head, tail, is_harmless = self[alike]
        head, tail = _fixed(head), _fixed(tail)
        request = b'{"seq":%%d,"at":%%d,%b,"id":%%d,"after":%%d%b%%b}' % (head, tail)
        answer = b'{"seq":%%d,"at":%%d,%b,"id":%%d,"re":%%d,"after":%%d%b%%b}' % (head, tail)
        found = request, answer, is_harmless
        if alike in self:
            self.forms[alike] = found
        return found

    def call(self, peer: str, name: str) -> tuple[bytes, bool]:
        """The form of the request to call a tool of a peer."""
        alike = "request", peer, "core>", "tools/call", name
        form, _, is_harmless = self.form(alike)
        if alike in self:
            self.calls[peer, name] = form, is_harmless
        return form, is_harmless

    def answer(self, peer: str) -> tuple[bytes, bool]:
        """The form of a peer's answer to such a request."""
        alike = "response", peer, "peer>", "tools/call", ""
        _, form, is_harmless = self.form(alike)
        if alike in self:
            self.answers[peer] = form, is_harmless
        return form, is_harmless

    def clear(self) -> None:
        """Forget everything."""
        super().clear()
        self.forms.clear()
        self.calls.clear()
        self.answers.clear()


class Questions(dict[tuple[str, str, str, str], tuple[bytes, bytes, bool]]):
    """Forms of the frame of a plain call and of that of a question to a hook about it: by peer, tool, extension and
    event. The numbers and the body of each are to be filled in; the last says whether no word of the first can be a
    secret."""

    def __init__(self, words: Words) -> None:
        super().__init__()
        self._words = words

    def __missing__(self, alike: tuple[str, str, str, str]) -> tuple[bytes, bytes, bool]:
        peer, name, asked, event = alike
        head, tail, is_harmless = self._words["request", peer, "core>", "tools/call", name]
        call = b'{"seq":%%d,"at":%%d,%b,"id":%%d,"after":%%d%b%%b}' % (_fixed(head), _fixed(tail))
        head, tail, _ = self._words["request", asked, ">peer", "pi/event_hook", event, "synthetic"]
        question = b'{"seq":%%d,"at":%%d,%b,"id":%%d,"parent":%%d%b%%b}' % (_fixed(head), _fixed(tail))
        if len(self) < MOST_WORDS and max(map(len, alike)) <= LONGEST_WORD:
            self[alike] = call, question, is_harmless
        return call, question, is_harmless


class Decisions(dict["tuple[Form, str, str]", tuple[bytes, bytes, bool]]):
    """The same of the frame of an answer to such a question and of that of the decision, which has a body member or
    none: by the form of the decision, extension and event. The last says whether no word of either can be a secret."""

    def __init__(self, words: Words) -> None:
        super().__init__()
        self._words = words

    def __missing__(self, alike: tuple[Form, str, str]) -> tuple[bytes, bytes, bool]:
        form, asked, event = alike
        head, tail, is_harmless = self._words["response", asked, "peer>", "pi/event_hook", ""]
        answer = b'{"seq":%%d,"at":%%d,%b,"id":%%d,"re":%%d,"after":%%d%b%%b}' % (_fixed(head), _fixed(tail))
        head, tail, _ = self._words["hook", asked, "inside", "", event]
        tail = tail[: -len(BODY)]
        said = b'{%b%b,"x":%b0%b}' % (head, tail, form.head, form.tail)
        is_harmless = is_harmless and not self._words.suspects(said)
        x = b'"x":%b%%d%b' % (_fixed(form.head), _fixed(form.tail))
        decision = b'{"seq":%%d,"at":%%d,%b,"re":%%d,"parent":%%d%b%%b,%b}' % (_fixed(head), _fixed(tail), x)
        if len(self) >= MOST_WORDS:
            # Forms are made anew when hooks are others.
            self.clear()
        self[alike] = answer, decision, is_harmless
        return answer, decision, is_harmless


def _fixed(part: bytes) -> bytes:
    """Bytes as they stand in a form: nothing is filled into them."""
    return part.replace(b"%", b"%%")
