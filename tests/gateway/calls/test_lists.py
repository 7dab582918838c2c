"""Lists of one peer and of several: pages, cursors, changes, and calls by name before anything was listed."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.calls.fetches import MOST_PAGES
from gateway.config.model import CatalogConfig
from gateway.config.peer import PeerConfig, ToolsConfig
from gateway.protocol import mcp
from tests.gateway.calls.kit import Client, Desk, Message, Service, text

TOOLS = "tools/list"


def pages(count: int, *, of: int = 1, prefix: str = "tool") -> list[list[Message]]:
    return [[{"name": f"{prefix}{page}_{item}"} for item in range(of)] for page in range(count)]


def listed(core: Client) -> list[str]:
    core.asks(TOOLS, id="list")
    return [tool["name"] for tool in core.gets_result()["tools"]]


def test_one_peers_pages_pass_one_by_one() -> None:
    service = Service()
    service.lists[TOOLS] = pages(3)
    core = Desk({"calc": service}).core()
    names: list[str] = []
    cursor: str | None = None
    for _ in range(3):
        core.asks(TOOLS, {"cursor": cursor} if cursor else {})
        result = core.gets_result()
        names.extend(tool["name"] for tool in result["tools"])
        cursor = result.get("nextCursor")

    assert (names, cursor) == (["tool0_0", "tool1_0", "tool2_0"], None)


@pytest.mark.parametrize("core_era", ["legacy", "modern"])
def test_several_peers_lists_are_one_page_in_the_order_of_the_configuration(core_era: mcp.Era) -> None:
    a, b = Service(), Service("modern")
    a.lists[TOOLS] = pages(5, prefix="a")
    b.lists[TOOLS] = pages(2, prefix="b")
    desk = Desk({"a": a, "b": b})
    core = desk.core(core_era)

    assert listed(core) == ["a0_0", "a1_0", "a2_0", "a3_0", "a4_0", "b0_0", "b1_0"]
    core.asks(TOOLS)
    result = core.gets_result()
    assert (result.get("resultType"), result.get("ttlMs")) == (
        ("complete", 0) if core_era == "modern" else (None, None)
    )
    assert "nextCursor" not in result


@pytest.mark.parametrize("cursor", ["again", ""])
def test_a_cursor_that_comes_twice_ends_the_list(cursor: str) -> None:
    a, b = Service(), Service(tools=["walk"])
    desk = Desk({"a": a, "b": b})
    core = desk.core()
    core.asks(TOOLS)
    for _ in range(2):
        a.answers(a.gets(TOOLS), {"tools": [{"name": "run"}], "nextCursor": cursor})

    assert [tool["name"] for tool in core.gets_result()["tools"]] == ["run", "walk"]
    assert any("twice" in notice for notice in desk.notices)
    assert a.hears_nothing


def test_a_list_without_end_is_cut() -> None:
    a, b = Service(), Service(tools=["walk"])
    a.lists[TOOLS] = pages(MOST_PAGES + 5)
    desk = Desk({"a": a, "b": b})
    names = listed(desk.core())

    assert len(names) == MOST_PAGES + 1
    assert any(f"more than {MOST_PAGES} pages" in notice for notice in desk.notices)


@pytest.mark.parametrize(
    "answer",
    [
        {"error": {"code": -1, "message": "no"}},
        {"result": {"tools": {}}},
        {"result": {"tools": [], "nextCursor": 7}},
        {"result": []},
        {"result": None},
    ],
)
def test_a_page_that_is_none_costs_the_rest_of_that_list_alone(answer: Message) -> None:
    a, b = Service(), Service(tools=["walk"])
    desk = Desk({"a": a, "b": b})
    core = desk.core()
    core.asks(TOOLS)
    a.answers(a.gets(TOOLS), {"tools": [{"name": "run"}], "nextCursor": "2"})
    a.says({"jsonrpc": "2.0", "id": a.gets(TOOLS)["id"], **answer})

    assert [tool["name"] for tool in core.gets_result()["tools"]] == ["run", "walk"]
    assert desk.notices


def test_a_peer_that_dies_while_it_lists_costs_its_own_list_alone() -> None:
    a, b = Service(), Service(tools=["walk"])
    core = Desk({"a": a, "b": b}).core()
    core.asks(TOOLS)
    a.gets(TOOLS)
    a.dies()
    answer = next(message for message in core.got if "id" in message)

    assert [tool["name"] for tool in answer["result"]["tools"]] == ["walk"]


def test_a_peer_without_the_capability_is_not_asked() -> None:
    a, b = Service(capabilities={}), Service(tools=["walk"])
    core = Desk({"a": a, "b": b}).core()

    assert listed(core) == ["walk"]
    assert a.hears_nothing


def test_ten_thousand_tools_on_a_hundred_pages_are_looked_at_once_each() -> None:
    looked: list[str] = []

    def judge(_: str, name: str, __: bytes) -> bool:
        looked.append(name)
        return False

    a, b = Service(), Service(tools=["walk"])
    a.lists[TOOLS] = pages(100, of=100)
    desk = Desk({"a": a, "b": b}, judge=judge)
    core = desk.core()

    assert len(listed(core)) == 10_001
    assert len(looked) == 10_001
    core.calls("tool99_99")
    assert a.gets("tools/call")["params"]["name"] == "tool99_99"
    assert len(looked) == 10_001


def test_a_name_is_looked_up_where_nothing_was_listed_yet() -> None:
    a, b = Service(tools=["run"]), Service(tools=["walk"])
    desk = Desk({"a": a, "b": b})
    core = desk.core()
    core.calls("walk")
    b.answers(b.gets("tools/call"), text("3"))

    assert core.gets_result() == text("3")
    assert desk.frames("request", way="core>", method="tools/call")[0].name == "walk"
    core.calls("swim")
    error = core.gets_error()
    assert (error["code"], error["data"]["reason"]) == (-32602, "unknown_name")


@pytest.mark.parametrize("is_down", [False, True])
def test_a_name_that_several_peers_have_is_answered_with_the_names_that_it_is_offered_under(
    is_down: bool,
) -> None:
    c = Service(tools=["walk"])
    c.is_down = is_down
    desk = Desk({"a": Service(tools=["run"]), "b": Service(tools=["run"]), "c": c})
    core = desk.core()
    assert listed(core) == ["a__run", "b__run", *([] if is_down else ["walk"])]
    core.calls("run")
    error = core.gets_error()
    assert (error["code"], error["data"]["reason"]) == (-32602, "unknown_name")
    assert error["data"]["advice"] == "Call it `a__run` or `b__run`"


def listed_at(service: Service, method: str = "tools/list") -> list[Message]:
    """Take the requests for a list that a silent peer has got."""
    return [message for message in service.wire.got if message["method"] == method]


def test_who_looks_for_a_name_while_another_does_waits_for_it_and_lists_are_fetched_once() -> None:
    a, b = Service(tools=["run"]), Service(tools=["walk"])
    pages = a.lists.pop("tools/list")
    desk = Desk({"a": a, "b": b})
    core = desk.core()
    for number, name in enumerate(("walk", "run", "swim"), 1):
        core.calls(name, id=number)
    (asked,) = listed_at(a)
    a.answers(asked, {"tools": pages[0]})
    a.answers(a.gets("tools/call"), text("ran"))
    b.answers(b.gets("tools/call"), text("walked"))

    assert core.gets()["id"] == 3
    assert [message["id"] for message in core.got] == [2, 1]
    assert len(desk.frames("request", way=">peer", method="tools/list")) == 2


ORDERS = [
    pytest.param(("list", "call"), id="the list first"),
    pytest.param(("call", "list"), id="the call first"),
    pytest.param(("list", "list", "call", "call"), id="two of each"),
]


def at_once(core: Client, *what: str) -> None:
    for number, each in enumerate(what, 1):
        if each == "list":
            core.asks(TOOLS, id=number)
        else:
            core.calls("walk", id=number)


@pytest.mark.parametrize("what", ORDERS)
def test_who_lists_and_calls_at_once_has_each_peer_asked_for_its_list_once(what: tuple[str, ...]) -> None:
    a, b = Service(), Service()
    desk = Desk({"a": a, "b": b})
    core = desk.core()
    at_once(core, *what)
    for service, name in ((a, "run"), (b, "walk")):
        (asked,) = listed_at(service)
        assert core.hears_nothing
        service.answers(asked, {"tools": [{"name": name}]})
    for _ in range(what.count("call")):
        b.answers(b.gets("tools/call"), text("walked"))

    results = {message["id"]: message["result"] for message in core.got}
    assert sorted(results) == list(range(1, len(what) + 1))
    for number, each in enumerate(what, 1):
        if each == "list":
            assert [tool["name"] for tool in results[number]["tools"]] == ["run", "walk"]
        else:
            assert results[number] == text("walked")
    assert len(desk.frames("request", way=">peer", method=TOOLS)) == 2


def test_who_lists_is_given_no_answer_that_had_come_before_while_others_are_waited_for() -> None:
    a, b = Service(), Service(tools=["walk"])
    core = Desk({"a": a, "b": b}).core()
    core.asks(TOOLS, id=1)
    b.lists[TOOLS] = [[{"name": "fly"}]]
    core.asks(TOOLS, id=2)
    (asked,) = listed_at(a)
    a.answers(asked, {"tools": []})
    answers = {message["id"]: message["result"]["tools"] for message in core.got}
    assert [tool["name"] for tool in answers[2]] == ["fly"]


def test_who_calls_waits_for_a_list_on_its_way_whatever_has_come_of_it() -> None:
    a, b = Service(), Service(tools=["walk"])
    desk = Desk({"a": a, "b": b})
    core = desk.core()
    at_once(core, "list", "call")
    (asked,) = listed_at(a)
    a.answers(asked, {"tools": []})
    assert b.gets("tools/call")["params"]["name"] == "walk"
    assert len(desk.frames("request", way=">peer", method=TOOLS)) == 2


@pytest.mark.parametrize("what", ["changes", "dies"])
def test_a_list_that_has_changed_or_will_not_come_is_asked_for_anew(what: str) -> None:
    a, b = Service(), Service(tools=["walk"])
    desk = Desk({"a": a, "b": b})
    core = desk.core()
    core.asks(TOOLS, id=1)
    (asked,) = listed_at(a)
    if what == "changes":
        a.tells("notifications/tools/list_changed")
    else:
        a.dies()
        desk.passes(0.2)
    core.got.clear()
    core.asks(TOOLS, id=2)
    (again,) = listed_at(a)
    a.answers(again, {"tools": [{"name": "new"}]})
    assert [tool["name"] for tool in core.gets_result()["tools"]] == ["new", "walk"]
    if what == "changes":
        a.answers(asked, {"tools": [{"name": "old"}]})
        assert core.gets()["id"] == 1


def test_the_gateways_own_failing_at_a_list_is_told_to_all_who_wait_for_it() -> None:
    a, b = Service(), Service(tools=["walk"])
    desk = Desk({"a": a, "b": b})
    core = desk.core()
    faults: list[Exception] = []
    desk.exchange.on_fault = faults.append
    core.receiver.session.catalog.put = lambda *_, **__: 1 / 0  # type: ignore[method-assign, assignment, return-value]
    at_once(core, "list", "call", "list")
    (asked,) = listed_at(a)
    a.answers(asked, {"tools": []})
    assert [message["error"]["data"]["reason"] for message in core.got] == ["internal"] * 3
    assert [type(fault) for fault in faults] == [ZeroDivisionError] * 3


def test_a_list_that_changes_while_others_are_awaited_is_fetched_again_for_those_who_came_later() -> None:
    a, b = Service(), Service(tools=["walk"])
    desk = Desk({"a": a, "b": b})
    core = desk.core()
    core.calls("walk", id=1)
    (asked,) = listed_at(a)
    b.lists["tools/list"] = [[{"name": "fly"}]]
    b.tells("notifications/tools/list_changed")
    core.calls("fly", id=2)
    a.answers(asked, {"tools": []})
    called = [message["params"]["name"] for message in b.wire.got]
    assert called == ["walk", "fly"]
    assert core.gets("notifications/tools/list_changed")
    core.asks("tools/list", id=3)
    a.answers(a.gets("tools/list"), {"tools": []})
    assert [tool["name"] for tool in core.gets_result()["tools"]] == ["fly"]


def test_a_request_that_cannot_go_on_is_answered_and_so_are_those_that_have_waited_with_it() -> None:
    a, b = Service(), Service(tools=["walk"])
    desk = Desk(
        {"a": a, "b": b}, peers={"b": PeerConfig(command=["x"], tools=ToolsConfig(rename={"walk": "go"}))}
    )
    core = desk.core()
    faults: list[Exception] = []
    desk.exchange.on_fault = faults.append
    core.calls("go", id=1)
    core.calls("go", id=2)
    good = core.receiver.session.submit
    core.receiver.session.submit = lambda call, peer: 1 / 0 if call.core_id == 1 else good(call, peer)  # type: ignore[method-assign, assignment, return-value]
    (asked,) = listed_at(a)
    a.answers(asked, {"tools": []})

    assert core.gets_error()["data"]["reason"] == "internal"
    assert b.gets("tools/call")["params"]["name"] == "walk"
    assert [type(fault) for fault in faults] == [ZeroDivisionError]


@pytest.mark.parametrize("method", ["tools/list", "tools/call"])
def test_who_waits_for_several_legs_is_answered_where_a_later_one_fails_the_gateway(method: str) -> None:
    a, b = Service(), Service(tools=["walk"])
    desk = Desk({"a": a, "b": b})
    core = desk.core()
    faults: list[Exception] = []
    desk.exchange.on_fault = faults.append
    core.receiver.session.catalog.put = lambda *_, **__: 1 / 0  # type: ignore[method-assign, assignment, return-value]
    for id_ in (1, 2) if method == "tools/call" else (1,):
        core.asks(method, {"name": "walk", "arguments": {}}, id=id_)
    (asked,) = listed_at(a)
    a.answers(asked, {"tools": []})

    for _ in faults:
        assert core.gets_error()["data"]["reason"] == "internal"
    assert [type(fault) for fault in faults] == [ZeroDivisionError] * (2 if method == "tools/call" else 1)


def test_a_peer_that_does_not_list_is_asked_once_for_all_who_wait() -> None:
    a, b = Service(), Service(tools=["walk"])
    desk = Desk({"a": a, "b": b})
    core = desk.core()
    for number in range(1, 11):
        core.calls("swim", id=number)
    (asked,) = listed_at(a)
    a.refuses(asked)

    assert listed_at(a) == []
    answers = [message for message in core.got if "id" in message]
    assert sorted(message["id"] for message in answers) == list(range(1, 11))
    assert all("error" in message for message in answers)


@pytest.mark.parametrize(
    ("method", "params", "list_method", "items"),
    [
        ("prompts/get", {"name": "hi"}, "prompts/list", [{"name": "hi"}]),
        ("resources/read", {"uri": "x:1"}, "resources/list", [{"uri": "x:1", "name": "x"}]),
        ("resources/read", {"uri": "x:1"}, "resources/templates/list", [{"uriTemplate": "x:{n}"}]),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": "hi"}},
            "prompts/list",
            [{"name": "hi"}],
        ),
        (
            "completion/complete",
            {"ref": {"type": "ref/resource", "uri": "x:{n}"}},
            "resources/templates/list",
            [{"uriTemplate": "x:{n}"}],
        ),
    ],
)
def test_whoever_lists_what_a_request_names_gets_it(
    method: str, params: Message, list_method: str, items: list[Message]
) -> None:
    empty: dict[str, list[list[Any]]] = {name: [[]] for name in mcp.LIST_METHODS}
    a, b = Service(), Service()
    a.lists = dict(empty)
    b.lists = empty | {list_method: [items]}
    core = Desk({"a": a, "b": b}).core()
    core.asks(method, params)
    asked = b.gets(method)

    assert asked["params"] == params
    assert a.hears_nothing
    b.answers(asked, {"ok": 1})
    assert core.gets_result() == {"ok": 1}


def test_a_completion_of_a_prefixed_prompt_goes_by_its_own_name() -> None:
    b = Service()
    core = Desk({"a": Service(), "b": b}).core()
    ref = {"type": "ref/prompt", "name": "b__hi", "title": "t"}
    core.asks("completion/complete", {"ref": ref, "argument": {"name": "x", "value": ""}})

    assert b.gets("completion/complete")["params"] == {
        "ref": {"type": "ref/prompt", "name": "hi", "title": "t"},
        "argument": {"name": "x", "value": ""},
    }


def test_a_renamed_tool_is_called_by_its_new_name() -> None:
    tools = ToolsConfig(rename={"run": "sprint"}, deny=["rm"])
    service = Service(tools=["run", "rm"])
    core = Desk({"calc": service}, peers={"calc": PeerConfig(command=["x"], tools=tools)}).core()
    assert listed(core) == ["sprint"]
    core.calls("sprint")
    assert service.gets("tools/call")["params"]["name"] == "run"
    core.calls("rm", id=2)

    assert core.gets_error()["data"]["reason"] == "filtered"
    assert service.hears_nothing


def test_a_tool_that_is_held_back_is_refused_even_where_it_was_never_listed() -> None:
    service = Service(tools=["run", "walk"])
    desk = Desk({"calc": service}, judge=lambda _, name, __: name == "run")
    core = desk.core()
    core.calls("run", id=1)
    error = core.gets_error()
    assert (error["data"]["code"], error["data"]["outcome"]) == ("denied", "not_sent")
    core.calls("calc__run", id=2)
    assert core.gets_error()["data"]["code"] == "denied"
    assert service.hears_nothing
    assert listed(core) == ["walk"]
    core.calls("walk", id=3)
    assert service.gets("tools/call")


def test_a_list_that_has_changed_is_fetched_again() -> None:
    a, b = Service(tools=["run"]), Service(tools=["walk"])
    core = Desk({"a": a, "b": b}).core()
    assert listed(core) == ["run", "walk"]
    a.lists[TOOLS] = [[{"name": "walk"}]]
    a.tells("notifications/tools/list_changed")
    assert core.gets("notifications/tools/list_changed")

    assert listed(core) == ["a__walk", "walk"]
    core.calls("walk")
    assert b.gets("tools/call")["params"]["name"] == "walk"


@pytest.mark.parametrize("prefix", ["always", "never"])
def test_the_rule_of_names_holds_in_the_exchange(prefix: Any) -> None:
    a, b = Service(tools=["add"]), Service(tools=["add"])
    desk = Desk({"a": a, "b": b}, catalog=CatalogConfig(prefix=prefix))
    core = desk.core()
    names = listed(core)
    core.calls(names[-1])
    owner = b if prefix == "always" else a

    assert names == (["a__add", "b__add"] if prefix == "always" else ["add"])
    assert owner.gets("tools/call")["params"]["name"] == "add"
    assert [frame.x for frame in desk.frames("route")]


def test_headers_that_a_schema_asks_for_travel_with_a_call_over_http() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer", "x-mcp-header": "Account"}}}
    service = Service("modern", tools=[{"name": "add", "inputSchema": schema}], stamped=True)
    core = Desk({"calc": service}).core("modern")
    core.asks(TOOLS)
    core.gets()
    core.calls()
    stamp = service.wire.link.stamps[-1]

    assert stamp is not None
    assert stamp.headers == (("Mcp-Param-Account", "1"),)
    assert (stamp.method, stamp.name, stamp.version) == ("tools/call", "add", "2026-07-28")


@pytest.mark.parametrize("tool", [5, {"name": 7}, {"name": "x", "inputSchema": 5}, {"inputSchema": {}}, []])
def test_a_schema_of_another_shape_passes_as_it_is(tool: Any) -> None:
    service = Service("modern")
    core = Desk({"calc": service}).core("modern")
    core.asks(TOOLS)
    asked = service.gets(TOOLS)
    service.answers(asked, {"tools": [tool, {"x-mcp-header": 1}]})

    assert core.gets_result()["tools"] == [tool, {"x-mcp-header": 1}]
