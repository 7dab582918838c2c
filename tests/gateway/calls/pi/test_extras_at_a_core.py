"""Shortcuts, flags, renderers and providers of extensions, all the way to a Pi core and back."""

from __future__ import annotations

import json
from typing import Any

from gateway.calls.pi.effects import Registered
from gateway.calls.pi.server import PiServer, Said
from gateway.protocol import jsonrpc
from tests.gateway.calls.kit import Message, Wire
from tests.gateway.calls.pi.kit import message, obj
from tests.gateway.calls.pi.test_core import FOREVER, Host
from tests.gateway.calls.pi.test_hooked_core import Hooker, desk_of

PROVIDER = {
    "name": "corp",
    "base_url": "https://llm.corp/v1",
    "api": "openai-completions",
    "models": [{"id": "m"}],
}


class Todo(Hooker):
    """An extension with some of everything."""

    def __init__(self, **members: Any) -> None:
        super().__init__()
        self.register = {**self.register, **members}
        self.calls: list[Message] = []

    def _carry(self, wire: Wire, said: Said) -> None:
        super()._carry(wire, said)
        self.calls += [one["payload"] for one in self.heard if one["type"] == "tool_call"]
        self.heard = [one for one in self.heard if one["type"] != "tool_call"]


def registered(host: Host) -> Message:
    assert host.extension.offer is not None
    return json.loads(bytes(host.extension.offer.declared))


def tells(host: Host, event: str, **data: Any) -> None:
    payload = {"event": event, "data": {**data, "reply": False}}
    host.says(json.dumps({"id": "k", "version": "1.0", "type": "event_hook", "payload": payload}).encode())
    host.settles()


def test_a_core_registers_the_union_with_each_ones_owner_and_collisions_are_told() -> None:
    first = Todo(shortcuts=[{"key": "ctrl+shift+y"}], flags=[{"name": "quiet"}], providers=[PROVIDER])
    second = Todo(
        shortcuts=[{"key": "shift+ctrl+y"}],
        message_renderers=[{"custom_type": "note", "hint": {"form": "markdown"}}],
    )
    desk = desk_of(first=first, second=second)

    offer = registered(Host(desk))

    assert offer["shortcuts"] == [{"key": "ctrl+shift+y", "extension": "first"}]
    assert offer["flags"] == [{"name": "quiet", "type": "boolean", "extension": "first"}]
    assert offer["providers"] == [{**PROVIDER, "extension": "first"}]
    assert offer["message_renderers"][0]["extension"] == "second"
    assert "shortcut `ctrl+shift+y` of second is not offered: first has it already" in desk.notices


def test_whoever_registers_again_changes_what_the_core_has() -> None:
    todo = Todo(flags=[{"name": "quiet"}])
    host = Host(desk_of(todo=todo))

    todo.pi("register", {**todo.register, "flags": [{"name": "loud"}]})
    host.settles()

    host.has(Registered)
    assert [flag["name"] for flag in registered(host)["flags"]] == ["loud"]


def test_a_pressed_key_is_told_to_its_owner_and_to_nobody_else() -> None:
    first, second = Todo(shortcuts=[{"key": "ctrl+shift+y"}]), Todo(shortcuts=[{"key": "alt+b"}])
    host = Host(desk_of(first=first, second=second))

    tells(host, "shortcut", key="Shift+Ctrl+Y")
    tells(host, "shortcut", key="alt+z")

    heard = [data["key"] for name, data in first.events if name == "shortcut"]
    assert (heard, second.count("shortcut")) == (["Shift+Ctrl+Y"], 0)


def test_an_extension_hears_the_values_of_its_own_flags_alone() -> None:
    todo = Todo(
        flags=[{"name": "quiet"}, {"name": "file", "type": "string", "default": "T.md"}],
        tools=[{"name": "list"}],
    )
    host = Host(desk_of(todo=todo))

    context = obj(flags={"quiet": True, "of-another": "secret plan"})
    host.does(host.extension.call_tool("list", obj(), FOREVER, context))

    [call] = todo.calls
    assert call["context"]["flags"] == {"quiet": True}


def test_a_flag_that_the_core_does_not_set_is_as_it_was_declared() -> None:
    server = PiServer("todo", 0, context=lambda _: {"cwd": "/p", "flags": {"quiet": None, "file": "T.md"}})
    flags = [{"name": "quiet"}, {"name": "file", "type": "string", "default": "T.md"}]
    register = {
        "name": "todo",
        "version": "1",
        "api_version": "1.0",
        "tools": [{"name": "list"}],
        "flags": flags,
    }
    server.from_extension(message("register", register), 0)
    server.from_gateway(jsonrpc.notification("notifications/initialized"), 0)

    params = {"name": "list", "arguments": {}, "_meta": {"io.tieline/flags": {"quiet": True}}}
    [told] = server.from_gateway(jsonrpc.request(5, "tools/call", jsonrpc.encode(params)), 0).to_extension

    assert json.loads(told)["payload"]["context"] == {"cwd": "/p", "flags": {"quiet": True, "file": "T.md"}}


def test_the_cores_own_commands_stay_its_own() -> None:
    todo = Todo(slash_commands=[{"name": "model"}, {"name": "todo"}])
    desk = desk_of(todo=todo)

    offer = registered(Host(desk))

    assert [one["name"] for one in offer["slash_commands"]] == ["todo"]
    assert "todo: command `/model` is the core's own, and is not offered to it" in desk.notices


def test_what_is_refused_is_told_and_the_rest_is_offered() -> None:
    todo = Todo(shortcuts=[{"key": "ctrl+c"}, {"key": "alt+b"}])
    desk = desk_of(todo=todo)

    assert registered(Host(desk))["shortcuts"] == [{"key": "alt+b", "extension": "todo"}]
    assert any("shortcut `ctrl+c` is reserved" in notice for notice in desk.notices)
