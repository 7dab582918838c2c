"""Asking a person whether an extension may do something: what is shown, who joins whose question, what was answered.

Owns that one question at a time is put for one capability of one extension, however many calls wait for the answer,
and that whatever is no clear yes is none. What follows from an answer is `policy`'s to say.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from gateway.calls.accepted import visible
from gateway.calls.call import Call
from gateway.calls.host_ui import Question, Request, Surface
from gateway.policy.decide import Answer, Decision, Facts, Keep
from gateway.protocol.errors import Fault

if TYPE_CHECKING:
    from gateway.calls.host_call import Hosted
    from gateway.calls.ports import Authority, Timer
    from gateway.calls.session import Session

MOST_PROMPTS: Final = 16
"""Questions that are open in one session; who comes then is refused."""
MOST_REFUSALS: Final = 3
"""Questions about one capability of one extension that come to nothing; it is asked no fourth time in the session."""
LONGEST: Final = 600
"""Characters of what a call wants to do that are shown."""
CHOICES: Final[dict[str, tuple[bool, Keep]]] = {
    "Allow once": (True, "once"),
    "Allow for this session": (True, "session"),
    "Allow in this project": (True, "project"),
    "Always allow": (True, "always"),
    "Refuse once": (False, "once"),
    "Refuse for this session": (False, "session"),
    "Never allow": (False, "always"),
}
_SHOWN: Final = ("cmd", "command", "args", "url", "path", "to", "op", "names", "name", "input", "kind")

_encode = msgspec.json.Encoder().encode


class Prompt:
    """One open question, and the calls that wait for its answer."""

    def __init__(self, prompts: Prompts, key: tuple[str, ...], shown: str) -> None:
        self._prompts = prompts
        self.key = key
        self.shown = hashlib.sha256(shown.encode("utf-8", "surrogatepass")).hexdigest()
        self.waiting: dict[Hosted, Callable[[Answer], None]] = {}
        self.ask: Question | None = None
        self.timer: Timer | None = None

    def leave(self, hosted: Hosted) -> None:
        """A call does not wait any more; the question is taken back where it was the last one."""
        if (
            self.waiting.pop(hosted, None) is not None
            and not self.waiting
            and not self._prompts.stays(hosted)
        ):
            self._prompts.end(self, "nobody waits for the answer any more")

    def answer(self, answer: Answer) -> None:
        """Tell all who wait."""
        self._prompts.end(self, "there is an answer")
        self._prompts.count(self.key, answer)
        answer = msgspec.structs.replace(answer, shown=self.shown, by=self._prompts.surface.name)
        # It is remembered once.
        again = msgspec.structs.replace(answer, keep="once")
        self._prompts.answered(self.key, again)
        waiting, self.waiting = self.waiting, {}
        for at, then in enumerate(waiting.values()):
            then(again if at else answer)


class Prompts:
    """The questions of one session."""

    def __init__(self, session: Session, surface: Surface, timeout_s: float, authority: Authority) -> None:
        self._session = session
        self._authority = authority
        self.surface = surface
        self._timeout_s = timeout_s
        self._open: dict[tuple[str, ...], Prompt] = {}
        self._refused: Counter[tuple[str, ...]] = Counter()
        self._last: dict[tuple[str, ...], Answer] = {}
        """What was answered last, for who comes late to a question."""

    def can_be_asked(self, call: Call | None) -> bool:
        """Whether a person could answer now."""
        return self.surface.can_be_asked(_request("", ""), call)

    def ask(self, hosted: Hosted, decision: Decision, then: Callable[[Answer], None]) -> Prompt | None:
        """Put the question of a decision, or wait for the answer to the same one. `then` may be called at once."""
        key = key_of(decision.facts)
        prompt = self._open.get(key)
        if prompt is not None:
            prompt.waiting[hosted] = then
            return prompt
        if len(self._open) >= MOST_PROMPTS or self._refused[key] >= MOST_REFUSALS:
            then(Answer(allowed=None, by=self.surface.name))
            return None
        last = self._last.get(key)
        if last is not None and self._authority.joins(hosted):
            then(last)
            return None
        asked = _request(title_of(decision), message_of(decision, hosted.params))
        prompt = self._open[key] = Prompt(self, key, f"{asked.title}\n{asked.message}")
        prompt.waiting[hosted] = then
        host = self._session.exchange.host
        prompt.timer = host.later(self._timeout_s, lambda: prompt.answer(Answer(allowed=None)))
        params: dict[str, Any] = msgspec.to_builtins(asked)
        prompt.ask = self.surface.ask(
            hosted, asked, params, "", lambda output: prompt.answer(answer_of(output))
        )
        return prompt if prompt.waiting else None

    def stays(self, hosted: Hosted) -> bool:
        """Whether a question stays open that its last call has left."""
        return self._authority.keeps_open(hosted)

    def answered(self, key: tuple[str, ...], answer: Answer) -> None:
        """Take note of what was answered."""
        self._last[key] = answer

    def count(self, key: tuple[str, ...], answer: Answer) -> None:
        """Take note of an answer: nobody is to be asked until he says yes."""
        if answer.allowed:
            self._refused.pop(key, None)
        else:
            self._refused[key] += 1

    def end(self, prompt: Prompt, why: str) -> None:
        """A question is not open any more."""
        if self._open.get(prompt.key) is prompt:
            del self._open[prompt.key]
        timer, ask = prompt.timer, prompt.ask
        prompt.timer = prompt.ask = None
        if timer is not None:
            timer.cancel()
        if ask is not None:
            self.surface.take_back(ask, why)

    def close(self) -> None:
        """The session ends: nobody is asked any more."""
        for prompt in list(self._open.values()):
            prompt.waiting.clear()
            self.end(prompt, "the session ends")


def key_of(facts: Facts) -> tuple[str, ...]:
    """Return what two questions have in common that have one answer."""
    tool = facts.need.tool if facts.need.capability == "tool" else ""
    return (facts.extension, facts.need.capability, tool, facts.executable, facts.manifest)


def title_of(decision: Decision) -> str:
    """Return the question."""
    need = decision.facts.need
    what = f"the tool `{need.tool}`" if need.capability == "tool" else f"`{need.capability}`"
    return visible(f"May the extension {decision.facts.extension} use {what}?"[:LONGEST])


def message_of(decision: Decision, params: dict[str, Any]) -> str:
    """Return what there is to know for an answer. What an extension says is shown, and acts on no terminal."""
    told = {name: params[name] for name in _SHOWN if name in params}
    wants = _short(f"{decision.facts.need.method} {_encode(told).decode()}")
    lines = [f"It wants: {wants}"]
    if decision.why:
        lines.append(visible(decision.why))
    lines.append(
        f"Asked because: {decision.reason.replace('_', ' ')}. An answer for longer holds for all such calls."
    )
    return "\n".join(lines)


def answer_of(output: dict[str, Any] | Fault) -> Answer:
    """Return what was answered. Nothing but a choice that was offered is one."""
    if isinstance(output, dict) and output.get("cancelled") is True:
        # Whoever turns the question away has said no, this time.
        return Answer(allowed=False)
    choice = CHOICES.get(str(output.get("value", ""))) if isinstance(output, dict) else None
    if choice is None:
        return Answer(allowed=None)
    allowed, keep = choice
    return Answer(allowed=allowed, keep=keep)


def _request(title: str, message: str) -> Request:
    return Request(kind="select", title=title, message=message, options=list(CHOICES))


def _short(text: str) -> str:
    # What nobody is shown is not looked at: it may be as long as a message.
    shown = visible(text[:LONGEST])
    if len(text) <= LONGEST and len(shown) <= LONGEST:
        return shown
    return f"{shown[:LONGEST]}… ({len(text)} characters)"
