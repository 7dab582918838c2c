"""One request of `ui`, on every surface that there is: the same answer of a person gives the same output."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from gateway.calls.host.dialogue import Reading
from gateway.calls.host_prompts import CHOICES
from gateway.calls.host_terminal import Shown
from gateway.calls.pi.effects import Asked
from gateway.policy.model import PROFILES, Policy
from tests.gateway.calls.kit import Message
from tests.gateway.calls.pi.kit import host_call, obj
from tests.gateway.calls.pi.test_core import Host
from tests.gateway.calls.pi.test_server import Helper, desk_of
from tests.gateway.calls.test_host_call import ALLOWED, READ, decisions, result

OPEN = PROFILES["full-auto"]
ASK = replace(PROFILES["standard"], default_caps=(), deny_caps=())
SELECT = {"kind": "select", "title": "Which?", "options": ["red", "blue"]}
CONFIRM = {"kind": "confirm", "title": "Sure?"}
INPUT = {"kind": "input", "title": "Name?", "placeholder": "yours"}
EDITOR = {"kind": "editor", "title": "Text?", "prefill": "old"}


class Screen:
    """A terminal whose person is the test."""

    def __init__(self) -> None:
        self.open: list[Shown] = []

    def show(self, shown: Shown) -> None:
        self.open.append(shown)

    def take_back(self, shown: Shown) -> None:
        self.open.remove(shown)


def with_terminal(policy: Policy = OPEN) -> tuple[Helper, Screen]:
    helper, screen = Helper(ALLOWED), Screen()
    desk = desk_of(helper)
    desk.host.policy, desk.host.screen = policy, screen
    desk.core()
    helper.heard.clear()
    return helper, screen


def shows(helper: Helper, params: Message) -> None:
    helper.pi("host_call", host_call(capability="ui", method="ui", params=params), "e-h1")


def at_terminal(params: Message, output: Message) -> Message:
    helper, screen = with_terminal()
    shows(helper, params)
    [shown] = screen.open
    shown.answered(_typed(shown, output))
    helper.desk.settle()
    return result(helper)["output"]


def _typed(shown: Shown, output: Message) -> Message | None:
    """What is made of the lines that a person types for an answer."""
    reading = Reading(shown.asked)
    if output == {"cancelled": True}:
        return reading.end()
    if "confirmed" in output:
        lines = ["y" if output["confirmed"] else "n"]
    elif shown.asked.kind == "select":
        lines = [str(shown.asked.options.index(output["value"]) + 1)]
    else:
        lines = [*output["value"].split("\n"), *(["."] if shown.asked.kind == "editor" else [])]
    found = [reading.line(line) for line in lines]
    assert isinstance(found[-1], dict)
    return found[-1]


def at_an_mcp_core(params: Message, output: Message) -> Message:
    helper = Helper(ALLOWED)
    desk = desk_of(helper)
    desk.host.policy = OPEN
    core = desk.core()
    helper.heard.clear()
    shows(helper, params)
    answer: Message
    if output == {"cancelled": True}:
        answer = {"action": "cancel"}
    elif "confirmed" in output:
        answer = {"action": "accept", "content": {}} if output["confirmed"] else {"action": "decline"}
    else:
        answer = {"action": "accept", "content": output}
    core.answers(core.gets("elicitation/create"), answer)
    return result(helper)["output"]


def at_a_pi_core(params: Message, output: Message) -> Message:
    helper = Helper(ALLOWED)
    desk = desk_of(helper)
    desk.host.policy = OPEN
    host = Host(desk)
    helper.heard.clear()
    shows(helper, params)
    asked = host.has(Asked)
    assert host.heard[-1]["payload"]["params"] == params
    host.does(host.extension.answer(asked.call.call_id, obj(**output)))
    return result(helper)["output"]


@pytest.mark.parametrize(
    "surface", [at_terminal, at_an_mcp_core, at_a_pi_core], ids=["terminal", "mcp core", "pi core"]
)
@pytest.mark.parametrize(
    ("params", "output"),
    [
        (SELECT, {"value": "blue"}), (SELECT, {"cancelled": True}),
        (CONFIRM, {"confirmed": True}), (CONFIRM, {"confirmed": False}), (CONFIRM, {"cancelled": True}),
        (INPUT, {"value": "Ada"}), (INPUT, {"value": ""}), (INPUT, {"cancelled": True}),
        (EDITOR, {"value": "a\nb"}), (EDITOR, {"cancelled": True}),
    ],
)  # fmt: skip
def test_the_same_answer_is_the_same_output_on_every_surface(
    surface: Callable[[Message, Message], Message], params: Message, output: Message
) -> None:
    assert surface(params, output) == output


@pytest.mark.parametrize("kind", ["select", "confirm", "input", "editor", "custom"])
def test_with_no_surface_every_question_is_denied(kind: str) -> None:
    helper = Helper(ALLOWED)
    desk = desk_of(helper)
    desk.host.policy = OPEN
    desk.core(capabilities={})
    helper.heard.clear()
    shows(helper, {"kind": kind, "options": ["a"]})
    error = result(helper)["error"]
    assert (error["code"], error["details"]["reason"]) == ("denied", "no_ui")


class TestTerminal:
    def test_a_question_of_the_policy_is_put_there_and_not_to_the_core(self) -> None:
        helper, screen = with_terminal(ASK)
        helper.pi("host_call", host_call(params=READ), "e-h1")
        [shown] = screen.open
        assert (shown.asked.kind, shown.asked.options, shown.who) == ("select", list(CHOICES), "")
        shown.answered({"value": "Allow once"})
        helper.desk.host.served.pop().ends(content="x")
        assert result(helper)["output"] == {"content": "x"}
        assert decisions(helper)[-1]["answer"]["by"] == "terminal"

    def test_question_and_answer_are_frames_of_the_call(self) -> None:
        helper, screen = with_terminal()
        shows(helper, CONFIRM)
        screen.open[0].answered({"confirmed": True})
        screen.open[0].answered({"confirmed": False})
        tap = helper.desk.host.taps[0]
        call = next(frame.seq for frame in tap.frames if frame.method == "pi/host_call")
        asked, answered = [frame for frame in tap.frames if frame.kind == "ui"]
        assert (asked.way, asked.parent, asked.name) == ("inside", call, "confirm")
        assert (answered.re, answered.parent) == (asked.seq, call)
        assert asked.x is not None
        assert (asked.x["surface"], asked.x["who"], asked.x["params"]["title"]) == (
            "terminal",
            "helper",
            "Sure?",
        )
        assert answered.x == {"answer": {"confirmed": True}}

    def test_what_nobody_waits_for_is_taken_back(self) -> None:
        helper, screen = with_terminal()
        shows(helper, CONFIRM)
        helper.pi("event_hook", {"event": "cancel", "data": {"call_id": "h1"}}, "e2")
        assert not screen.open
        assert result(helper)["error"]["code"] == "timeout"
        assert helper.desk.host.taps[0].frames[-1].kind != "ui"

    def test_a_terminal_that_goes_is_nobody(self) -> None:
        helper, screen = with_terminal(ASK)
        helper.pi("host_call", host_call(params=READ), "e-h1")
        screen.open[0].answered(None)
        helper.desk.settle()
        assert result(helper)["error"]["code"] == "denied"
        assert not helper.desk.host.served

    def test_what_only_a_core_can_draw_is_denied(self) -> None:
        helper, screen = with_terminal()
        shows(helper, {"kind": "custom"})
        assert (result(helper)["error"]["details"]["reason"], screen.open) == ("no_ui", [])
