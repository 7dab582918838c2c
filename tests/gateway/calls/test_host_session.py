"""The session of an agent behind the real exchange: what extensions are told of it, change in it, hear of its end."""

from __future__ import annotations

import itertools
import json
from typing import Any

from msgspec.structs import replace

from gateway.calls.call import Call
from gateway.calls.peer_state import Peer
from gateway.config.peer import PeerConfig
from gateway.policy.model import Policy
from gateway.sessions import format as session_format
from gateway.sessions.tree import Tree
from tests.gateway.calls.host_kit import TableKeeper
from tests.gateway.calls.kit import Client, Desk, Message, Service
from tests.gateway.calls.pi.kit import REGISTER
from tests.gateway.calls.pi.test_server import Helper

FLAGS = [{"name": "plan", "type": "boolean", "default": True}, {"name": "model"}]
OFFER = {**REGISTER, "capabilities": ["session"], "flags": FLAGS}


class Talk:
    """An extension in a session, and its core."""

    def __init__(self, *, ui: bool = False, screen: Any = None, hooks: tuple[str, ...] = ()) -> None:
        """`hooks` are the events that another extension has hooks for."""
        self.helper = Helper(OFFER)
        self.other = Helper(
            {**REGISTER, "name": "other", "tools": [], "slash_commands": [], "event_hooks": list(hooks)}
        )
        services: dict[str, Service] = {"helper": self.helper, **({"other": self.other} if hooks else {})}
        peers = {name: PeerConfig(command=["x"], dialect="pi") for name in services}
        desk = Desk(services, peers=peers)
        self.keeper = desk.host.keeps = TableKeeper()
        desk.host.policy = Policy(mode="permissive", deny_caps=())
        desk.host.screen = screen
        capabilities: Message = {"elicitation": {}} if ui else {}
        self.core: Client = desk.core(capabilities=capabilities)
        if hooks:
            self.other.hears("event_hook")
        self.started = self.helper.hears("event_hook")["payload"]
        self._count = 0

    def asks(self, op: str, context: Message | None = None, **params: Any) -> None:
        self._count += 1
        call = {"call_id": f"h{self._count}", "capability": "session", "method": "session"}
        call |= {"params": {"op": op, **params}, "context": context or {}}
        self.helper.pi("host_call", call, f"e{self._count}")

    def gets(self, op: str, context: Message | None = None, **params: Any) -> Message:
        """Ask, and give the output, or the error."""
        self.asks(op, context, **params)
        return self.answer()

    def answer(self) -> Message:
        payload = self.helper.hears("host_result")["payload"]
        return payload["error"] if payload["is_error"] else payload["output"]

    def call(self) -> Message:
        """Have the core call a tool; give what the extension is sent."""
        self.core.asks("tools/call", {"name": "search", "arguments": {}}, id=100 + self._count)
        return self.helper.hears("tool_call")

    def states(self) -> list[Message]:
        return [frame.x or {} for frame in self.helper.desk.host.taps[0].frames if frame.kind == "state"]

    def on_disk(self, id_: str) -> Tree:
        [data] = [data for file, data in self.keeper.files.items() if id_ in file]
        found = session_format.read(data)
        return Tree(found.header, found.entries)


def test_an_extension_is_told_of_the_session_with_its_start_with_calls_and_with_commands() -> None:
    talk = Talk()
    context = talk.started["context"]
    assert context["session"] == {**context["session"], "generation": 1, "leaf": None, "name": None}
    assert (context["cwd"], context["ui"], context["model"]) == ("/project", "none", None)
    assert context["flags"] == {"plan": True, "model": None}
    entry = talk.gets("append_entry", custom_type="todo", data=[1])["id"]
    asked = talk.call()["payload"]["context"]
    assert asked["session"]["leaf"] == entry
    assert asked["branch"]["hash"] != context["branch"]["hash"]
    assert asked["now_ms"] >= talk.keeper.beginning.at_ms
    assert asked["active_tools"] == ["search", "slow"]
    talk.core.asks("prompts/get", {"name": "deploy"}, id=7)
    command = talk.helper.hears("slash_command")["payload"]
    assert command["context"]["session"] == asked["session"]


def test_what_hooks_are_told_with_a_question_is_written_once_and_is_what_is_so_now() -> None:
    talk = Talk(screen=None)
    talk.gets("append_entry", custom_type="todo", data=[1])
    desk = talk.helper.desk
    session, peer = desk.exchange.sessions[0], talk.helper.wire.peer
    about = session.host_session
    assert about is not None

    def told() -> Message:
        leg = Call(
            session, "pi/event_hook", b"{}", about=Call(session, "tools/call", b"{}", core=session.cores[0])
        )
        written = json.loads(about.context_json(leg, peer))
        assert written == json.loads(json.dumps(about.context(leg, peer)))
        assert about.context_json(leg, peer) == about.context_json(leg, peer)
        return written

    seen = [told()]
    talk.gets("append_entry", custom_type="x")
    seen.append(told())
    talk.gets("set_name", name="n")
    seen.append(told())
    talk.gets("new")
    seen.append(told())
    session.cores[0].capabilities = {"elicitation": {}}
    seen.append(told())
    session.cores[0].capabilities = {}
    desk.host.screen = "a terminal"
    seen.append(told())
    flags = [{"name": "plan", "type": "boolean", "default": False}]
    talk.helper.pi("register", {**OFFER, "flags": flags, "tools": []}, "r2")
    seen.append(told())
    # The ui is a person's either way.
    assert [one != other for one, other in itertools.pairwise(seen)] == [True, True, True, True, False, True]
    desk.host.ns += 5_000_000
    assert told() == {**seen[-1], "now_ms": seen[-1]["now_ms"] + 5}


def test_a_core_that_can_be_asked_is_told_as_a_ui() -> None:
    assert Talk(ui=True).call()["payload"]["context"]["ui"] == "remote"
    assert Talk(screen="a terminal").call()["payload"]["context"]["ui"] == "remote"


def test_state_is_kept_in_the_file_and_in_frames_and_the_end_says_what_the_session_was() -> None:
    talk = Talk()
    talk.gets("append_entry", custom_type="todo", data={"items": [1]})
    state = talk.gets("get_state")
    begun, changed = talk.states()
    assert (begun["event"], begun["seed"], begun["session"]) == ("begun", "seed", state["session"]["id"])
    assert (changed["event"], changed["wrote"]) == ("changed", [state["session"]["leaf"]])
    assert changed["branch"] == state["branch"]
    conversation = talk.helper.wire.peer.sessions[0].host_session
    assert conversation is not None
    snapshot = conversation.conversation.snapshot
    talk.core.leaves()
    ended = talk.states()[-1]
    assert (ended["event"], ended["entries"], ended["snapshot"]) == ("ended", 1, snapshot)
    assert talk.keeper.is_closed
    assert talk.on_disk(begun["session"]).entries[0].fields["data"] == {"items": [1]}


def test_who_says_an_old_session_hears_which_one_is_the_current_one() -> None:
    talk = Talk()
    old = talk.call()["payload"]["context"]["session"]
    new = talk.gets("new", {"session": old})["session"]
    fault = talk.gets("append_entry", {"session": old}, custom_type="x")
    assert (fault["code"], fault["details"]["reason"]) == ("invalid_request", "stale_session")
    assert "stale session" in fault["message"]
    assert new["id"] in fault["message"]
    assert fault["details"]["session"] == new
    assert talk.gets("append_entry", {"session": new}, custom_type="x")["session"]["id"] == new["id"]
    assert (
        talk.gets("append_entry", {"session": {"id": old["id"]}}, custom_type="x")["code"]
        == "invalid_request"
    )


def test_what_began_before_the_session_was_replaced_is_stale_though_it_says_nothing() -> None:
    for op in ("new", "reload"):
        talk = Talk()
        key = talk.call()["payload"]["call_id"]
        talk.gets(op)
        fault = talk.gets("set_name", {"tool_call_id": key}, name="mine")
        assert fault["details"]["reason"] == "stale_session", op
        assert f"generation {fault['details']['session']['generation']}" in fault["message"]
        now = fault["details"]["session"]
        assert talk.gets("set_name", {"tool_call_id": key, "session": now}, name="mine")["id"]
        end: Message = {"call_id": key, "output": {}, "is_error": False}
        talk.helper.pi("tool_result", end, key)
        assert talk.gets("set_name", name="mine")["id"]


def test_while_a_file_is_read_everything_else_waits_its_turn() -> None:
    talk = Talk()
    first = talk.gets("append_entry", custom_type="x")["session"]["id"]
    talk.gets("new")
    talk.asks("resume", target=first)
    talk.asks("append_entry", custom_type="y")
    assert talk.helper.heard == []
    talk.keeper.reads()
    talk.helper.desk.settle()
    assert talk.answer()["session"]["id"] == first
    assert talk.answer()["session"]["id"] == first
    assert [entry.fields["customType"] for entry in talk.on_disk(first).entries] == ["x", "y"]
    assert [state["event"] for state in talk.states()][-3:] == ["read", "changed", "changed"]


def test_a_session_that_is_not_there_and_params_that_are_none_are_told_in_the_five_codes() -> None:
    talk = Talk()
    talk.asks("switch", target="nothing")
    talk.keeper.reads()
    talk.helper.desk.settle()
    assert talk.answer()["details"]["reason"] == "no_such_session"
    wrong: list[tuple[str, Message, str]] = [
        ("forget", {}, "bad_params"),
        ("get_entry", {"id": "gone"}, "no_such_entry"),
        ("compact", {"summary": "s", "firstKeptEntryId": "gone"}, "no_such_entry"),
        ("append_entry", {"custom_type": "  "}, "bad_entry"),
    ]
    for op, params, reason in wrong:
        fault = talk.gets(op, **params)
        assert (fault["code"], fault["details"]["reason"]) == ("invalid_request", reason), op


def test_a_full_disk_is_io_and_leaves_nothing_but_a_frame() -> None:
    talk = Talk()
    talk.keeper.is_full = True
    fault = talk.gets("append_entry", custom_type="x")
    assert (fault["code"], fault["details"]["errno"]) == ("io", "ENOSPC")
    assert talk.states()[-1] == {**talk.states()[-1], "event": "failed", "write": 0, "reason": "enospc"}
    talk.keeper.is_full = False
    assert talk.gets("get_entries")["entries"] == []
    assert talk.gets("append_entry", custom_type="x")["id"]


def test_a_session_that_ends_while_a_file_is_read_is_over() -> None:
    talk = Talk()
    talk.asks("list")
    talk.core.leaves()
    assert talk.keeper.is_closed
    assert talk.states()[-1]["event"] == "ended"


def test_sessions_are_listed() -> None:
    talk = Talk()
    talk.gets("append_entry", custom_type="x")
    talk.asks("list")
    talk.keeper.reads()
    talk.helper.desk.settle()
    assert talk.answer() == {"sessions": [{"file": next(iter(talk.keeper.files))}]}


def test_a_hook_is_told_the_lane_of_the_call_that_it_judges_and_who_can_be_asked() -> None:
    talk = Talk(ui=True, hooks=("tool_call",))
    params = {"name": "search", "arguments": {}, "_meta": {"io.tieline/lane": "turn1/tool2"}}
    talk.core.asks("tools/call", params, id=6)
    context = talk.other.hears("event_hook")["payload"]["context"]
    assert (context["lane"], context["ui"]) == ("turn1/tool2", "remote")


def test_another_extension_can_cancel_what_would_replace_the_session() -> None:
    talk = Talk(hooks=("session_before_switch", "session_before_fork", "session_switch", "session_fork"))
    first = talk.gets("append_entry", custom_type="x")
    talk.asks("new")
    talk.asks("append_entry", custom_type="waits")
    assert talk.helper.heard == []
    asked = talk.other.hears("event_hook")
    assert (asked["payload"]["event"], asked["payload"]["data"]["reason"]) == ("session_before_switch", "new")
    assert asked["payload"]["context"]["session"] == first["session"]
    answer: Message = {
        "event": "session_before_switch",
        "data": {"result": {"cancel": True, "reason": "not now"}},
    }
    talk.other.pi("event_hook", answer, asked["id"])
    assert talk.answer() == {"session": first["session"], "cancelled": True, "reason": "not now"}
    assert talk.answer()["session"]["id"] == first["session"]["id"]

    talk.asks("fork", entry_id=first["id"], position="at")
    asked = talk.other.hears("event_hook")
    assert asked["payload"]["data"] == {"entryId": first["id"], "position": "at"}
    talk.other.pi("event_hook", {"event": "session_before_fork", "data": {}}, asked["id"])
    forked = talk.answer()["session"]
    told = talk.other.hears("event_hook")["payload"]
    assert (told["event"], told["data"]["session"], told["data"]["reply"]) == ("session_fork", forked, False)
    assert told["context"]["session"] == forked


def test_a_hook_puts_its_own_summary_in_the_place_of_a_compaction_and_one_that_hangs_stops_nothing() -> None:
    talk = Talk(hooks=("session_before_compact", "session_compact", "session_tree", "session_before_tree"))
    entry = talk.gets("append_entry", custom_type="x")["id"]
    talk.asks("compact", summary="mine", first_kept_entry_id=entry)
    asked = talk.other.hears("event_hook")
    better = {"compaction": {"summary": "better", "firstKeptEntryId": entry, "tokensBefore": 7}}
    talk.other.pi("event_hook", {"event": "session_before_compact", "data": {"result": better}}, asked["id"])
    made = talk.answer()["id"]
    told = talk.other.hears("event_hook")["payload"]["data"]["compactionEntry"]
    assert (told["id"], told["summary"], told["tokensBefore"]) == (made, "better", 7)

    talk.asks("navigate", target_id=entry, summary="left")
    assert talk.other.hears("event_hook")["payload"]["data"]["preparation"]["oldLeafId"] == made
    talk.helper.desk.passes(0.6)
    assert talk.answer()["cancelled"] is False
    told = talk.other.hears("event_hook")["payload"]
    assert (told["event"], told["data"]["summaryEntry"]["summary"]) == ("session_tree", "left")
    assert talk.other.hears("event_hook")["payload"]["event"] == "cancel"
    decisions = [frame.name for frame in talk.helper.desk.host.taps[0].frames if frame.kind == "hook"]
    assert decisions == ["session_before_compact", "session_before_tree"]


def test_who_asks_is_not_asked_itself() -> None:
    talk = Talk()
    talk.helper.register = {**OFFER, "event_hooks": ["session_before_switch"]}
    talk.helper.pi("register", talk.helper.register, "r2")
    talk.helper.heard.clear()
    assert talk.gets("new")["cancelled"] is False


def test_two_agents_that_share_an_extension_are_each_in_a_session_of_their_own() -> None:
    helper = Helper(OFFER)
    desk = Desk({"helper": helper}, peers={"helper": PeerConfig(command=["x"], dialect="pi", scope="shared")})
    seeds = iter(("one", "two"))

    def keeper(session: Any, peer: Peer) -> TableKeeper:
        kept = TableKeeper()
        kept.beginning = replace(kept.beginning, seed=next(seeds))
        return kept

    desk.host.keeper = keeper
    first, second = desk.core(), desk.core()
    helper.heard.clear()
    told: list[Message] = []
    for core in (first, second, first):
        core.asks("tools/call", {"name": "search", "arguments": {}}, id=50 + len(told))
        told.append(helper.hears("tool_call")["payload"]["context"]["session"])
    assert told[0] == told[2]
    assert told[0]["id"] != told[1]["id"]
    begun = [[frame.x or {} for frame in tap.frames if frame.kind == "state"] for tap in desk.host.taps]
    assert [[state["session"] for state in states] for states in begun] == [[told[0]["id"]], [told[1]["id"]]]
