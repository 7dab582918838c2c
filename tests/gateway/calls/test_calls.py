"""One call on its way: both eras on both sides, ids, frames, errors, what is unknown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.config.peer import PeerConfig
from gateway.protocol import mcp
from gateway.protocol.mcp import Era
from tests.gateway.calls.kit import Client, Desk, Message, Service, text

ERAS: list[tuple[Era, Era]] = [
    ("legacy", "legacy"),
    ("legacy", "modern"),
    ("modern", "legacy"),
    ("modern", "modern"),
]
in_all_eras = pytest.mark.parametrize(("core_era", "peer_era"), ERAS, ids=str)
METHODS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("tools/call", {"name": "add", "arguments": {"a": [1.50, None]}}, text("3")),
    ("prompts/get", {"name": "greet", "arguments": {"who": "you"}}, {"messages": []}),
    ("resources/read", {"uri": "file:///a b"}, {"contents": []}),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {}}, {"completion": {}}),
    ("tools/list", {"cursor": "2"}, {"tools": [], "nextCursor": "3"}),
    ("resources/list", {}, {"resources": []}),
    ("resources/templates/list", {}, {"resourceTemplates": []}),
    ("prompts/list", {}, {"prompts": []}),
    ("x-vendor/anything", {"deep": {"er": []}}, {"odd": 1}),
]


def table(core_era: Era, peer_era: Era, **core: Any) -> tuple[Desk, Client, Service]:
    """Return a desk with one core and one peer that have shaken hands."""
    service = Service(peer_era)
    desk = Desk({"calc": service})
    return desk, desk.core(core_era, **core), service


@in_all_eras
@pytest.mark.parametrize(("method", "params", "result"), METHODS, ids=[method for method, _, _ in METHODS])
def test_every_request_reaches_the_peer_and_its_answer_the_core(
    core_era: Era, peer_era: Era, method: str, params: dict[str, Any], result: dict[str, Any]
) -> None:
    _, core, calc = table(core_era, peer_era)
    core.asks(method, params, id="7")
    asked = calc.gets(method)
    got = dict(asked["params"])
    meta = got.pop("_meta", {})

    assert got == params
    assert (meta.get(mcp.META_VERSION) is not None) == (peer_era == "modern")
    assert isinstance(asked["id"], int)
    calc.answers(asked, result | ({"resultType": "complete"} if peer_era == "modern" else {}))
    answer = core.gets()
    assert answer["id"] == "7"
    assert answer["result"].items() >= result.items()
    assert core.hears_nothing


@pytest.mark.parametrize("method", ["tools/call", "tools/list", "resources/read", "prompts/get"])
def test_a_legacy_result_is_complete_and_not_to_be_cached_for_a_modern_core(method: str) -> None:
    _, core, calc = table("modern", "legacy")
    core.asks(method, {"name": "a", "uri": "b:c"})
    calc.answers(
        calc.gets(method), {"text": '"ttlMs" and "resultType"', "nested": {"ttlMs": 1, "resultType": 2}}
    )
    result = core.gets_result()

    assert result["resultType"] == "complete"
    assert (result.get("ttlMs"), result.get("cacheScope")) == (
        (0, "private") if method in mcp.CACHEABLE else (None, None)
    )


@pytest.mark.parametrize("result", [[], [1], "text", 7, None, {}])
def test_a_result_that_is_no_object_still_is_an_answer(result: Any) -> None:
    _, core, calc = table("modern", "legacy")
    core.calls()
    calc.says({"jsonrpc": "2.0", "id": calc.gets("tools/call")["id"], "result": result})

    assert "result" in core.gets()


@in_all_eras
def test_an_error_object_passes_as_it_is(core_era: Era, peer_era: Era) -> None:
    _, core, calc = table(core_era, peer_era)
    core.calls(id=3)
    calc.says(
        b'{"jsonrpc":"2.0","error":{"code":-32099,"message":"\\u00e9","data":{"n":1.0,"x":[null]},"more":1},"id":%d}'
        % calc.gets("tools/call")["id"]
    )

    assert core.link.raw[-1] == (
        b'{"jsonrpc":"2.0","id":3,"error":'
        b'{"code":-32099,"message":"\\u00e9","data":{"n":1.0,"x":[null]},"more":1}}'
    )


def test_a_missing_resource_has_the_number_of_its_era() -> None:
    _, core, calc = table("modern", "legacy")
    core.asks("resources/read", {"uri": "a:b"})
    calc.refuses(calc.gets("resources/read"), -32002, "not found", data={"uri": "a:b"})

    assert core.gets_error() == {"code": -32602, "message": "not found", "data": {"uri": "a:b"}}


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_within_one_era_params_and_results_pass_byte_for_byte(era: Era) -> None:
    _, core, calc = table(era, era)
    meta = b""
    if era == "modern":
        meta = b'"_meta":{"%b":"2026-07-28","%b":{}},' % (
            mcp.META_VERSION.encode(),
            mcp.META_CAPABILITIES.encode(),
        )
    params = (
        b'{%b"name":"\\u0061","arguments":{"n":1.50,"big":12345678901234567890123,"s":"\xe2\x80\xa8"}}' % meta
    )
    core.says(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%b}' % params)
    asked = calc.gets("tools/call")

    assert b'"params":%b}' % params in calc.wire.link.raw[-1]
    result = b'{"content":[ ],  "n":1e400,"later":{"a":1.0}}'
    calc.says(b'{"jsonrpc":"2.0","id":%d,"result":%b,"trace":"t"}' % (asked["id"], result))
    assert core.link.raw[-1] == b'{"jsonrpc":"2.0","id":1,"result":%b,"trace":"t"}' % result


@in_all_eras
def test_trace_context_and_foreign_meta_pass(core_era: Era, peer_era: Era) -> None:
    _, core, calc = table(core_era, peer_era)
    meta: Message = {"traceparent": "00-a-b-01", "com.example/x": {"y": 1}}
    core.asks("tools/call", {"name": "add", "_meta": meta})
    meta = calc.gets("tools/call")["params"]["_meta"]

    assert (meta["traceparent"], meta["com.example/x"]) == ("00-a-b-01", {"y": 1})
    if peer_era == "legacy":
        assert not mcp.CONNECTION_META & meta.keys()


def test_a_lane_that_the_core_names_is_in_its_frame() -> None:
    desk, core, calc = table("legacy", "legacy")
    core.calls(**{mcp.META_LANE: "turn3/tool2"})

    assert desk.frames("request", method="tools/call")[-1].lane == "turn3/tool2"
    calc.gets("tools/call")


@pytest.mark.parametrize("method", ["notifications/roots/list_changed", "notifications/x-vendor/odd"])
def test_notifications_of_a_core_pass_as_they_are(method: str) -> None:
    _, core, calc = table("legacy", "legacy")
    data = b'{ "jsonrpc":"2.0","method":"%b", "params":{"a":1.0}, "later":true}' % method.encode()
    core.says(data)

    assert calc.gets(method)
    assert calc.wire.link.raw[-1] == data


def test_unknown_notifications_of_a_peer_pass_as_they_are() -> None:
    _, core, calc = table("legacy", "legacy")
    data = b'{"jsonrpc":"2.0","method":"x-vendor/odd", "params":{"a":1.0}, "later":true}'
    calc.says(data)

    assert core.link.raw[-1] == data


@pytest.mark.parametrize("core_era", ["legacy", "modern"])
def test_a_ping_is_answered_on_the_spot_in_the_era_that_has_it(core_era: Era) -> None:
    desk, core, calc = table(core_era, "legacy")
    core.says({"jsonrpc": "2.0", "id": "p", "method": "ping"})

    assert core.gets() == {"jsonrpc": "2.0", "id": "p", "result": {}}
    assert calc.hears_nothing
    assert desk.frames("response")[-1].flags == ("synthetic",)


def test_a_peer_that_pings_is_answered() -> None:
    desk, core, calc = table("legacy", "legacy")
    calc.asks("ping", id="?")

    assert calc.gets() == {"jsonrpc": "2.0", "id": "?", "result": {}}
    assert core.hears_nothing
    request, response = desk.tap.frames[-2:]
    assert (request.way, response.way, response.re) == ("peer>", ">peer", request.seq)


@in_all_eras
def test_a_plain_call_leaves_exactly_two_frames(core_era: Era, peer_era: Era) -> None:
    desk, core, calc = table(core_era, peer_era)
    mark = desk.mark()
    core.calls(id="c")
    calc.answers(calc.gets("tools/call"), text("3"))
    request, response = desk.tap.frames[mark:]

    assert (request.kind, request.way, request.id, request.name) == ("request", "core>", "c", "add")
    assert (request.peer, request.flags) == ("calc", ())
    assert (response.kind, response.way, response.re) == ("response", "peer>", request.seq)
    assert response.after == request.seq
    assert core.receiver.delivered == response.seq


def test_a_body_in_a_frame_is_what_came_over_the_wire() -> None:
    desk, core, calc = table("legacy", "legacy")
    data = b'{"method":"tools/call", "id":1,"jsonrpc":"2.0","params":{"name":"add"}}'
    core.says(data)

    assert desk.tap.frames[-1].body == data
    calc.gets("tools/call")


def test_answers_find_their_calls_in_any_order() -> None:
    _, core, calc = table("legacy", "legacy")
    for id_ in (9, "9", "", 2**60):
        core.calls(id=id_)
    asked = [calc.gets("tools/call") for _ in range(4)]
    for message, word in reversed(list(zip(asked, "abcd", strict=True))):
        calc.answers(message, {"word": word})

    got = {repr(message["id"]): message["result"]["word"] for message in core.got}
    assert got == {"9": "a", "'9'": "b", "''": "c", repr(2**60): "d"}


def test_a_second_request_under_an_id_that_is_in_flight_is_refused_and_the_first_goes_on() -> None:
    _, core, calc = table("legacy", "legacy")
    core.calls(id=1)
    core.calls(id=1)

    assert core.gets_error()["data"]["reason"] == "duplicate_id"
    calc.answers(calc.gets("tools/call"), text("3"))
    assert calc.hears_nothing
    assert core.gets_result() == text("3")


def test_two_cores_with_one_id_on_one_shared_peer_never_meet() -> None:
    service = Service()
    desk = Desk({"calc": service}, peers={"calc": PeerConfig(command=["x"], scope="shared")})
    one, two = desk.core(), desk.core()
    one.calls("first", id=1)
    two.calls("second", id=1)
    first, second = service.gets("tools/call"), service.gets("tools/call")

    assert len(service.wires) == 1
    service.answers(second, text(second["params"]["name"]))
    service.answers(first, text(first["params"]["name"]))
    assert one.got == [{"jsonrpc": "2.0", "id": 1, "result": text("first")}]
    assert two.got == [{"jsonrpc": "2.0", "id": 1, "result": text("second")}]


def test_a_request_of_the_peer_under_an_id_that_is_pending_the_other_way_is_another_matter() -> None:
    _, core, calc = table("legacy", "legacy")
    core.calls(id=5)
    asked = calc.gets("tools/call")
    calc.asks("roots/list", id=asked["id"])
    core.answers(core.gets("roots/list"), {"roots": []})
    answer = calc.gets()

    assert (answer["id"], answer["result"]) == (asked["id"], {"roots": []})
    calc.answers(asked, text("3"))
    assert core.gets()["id"] == 5


@pytest.mark.parametrize(
    ("id_", "kind", "flag"),
    [(None, "response", "duplicate"), (999, "response", "orphan"), ("1", "response", "orphan")],
)
def test_an_answer_that_nobody_waits_for_is_flagged_and_goes_nowhere(id_: Any, kind: str, flag: str) -> None:
    desk, core, calc = table("legacy", "legacy")
    core.calls()
    asked = calc.gets("tools/call")
    calc.answers(asked, text("3"))
    core.gets()
    calc.answers(asked["id"] if id_ is None else id_, text("4"))

    assert core.hears_nothing
    assert (desk.tap.frames[-1].kind, desk.tap.frames[-1].flags) == (kind, (flag,))


def test_an_answer_before_the_question_is_not_the_answer() -> None:
    desk, core, calc = table("legacy", "legacy")
    calc.answers(2, text("too early"))
    core.calls()
    asked = calc.gets("tools/call")
    calc.answers(asked, text("3"))

    assert asked["id"] == 2
    assert desk.frames("response", flags=("orphan",))
    assert core.gets_result() == text("3")


def test_a_task_is_asked_of_the_peer_that_has_it() -> None:
    desk = Desk({"a": Service(tools=["run"]), "b": Service(tools=["walk"])})
    core = desk.core()
    core.calls("walk")
    b = desk.services["b"]
    b.answers(b.gets("tools/call"), {"task": {"taskId": "t1", "status": "working"}})
    core.gets()
    for method in ("tasks/get", "tasks/result", "tasks/cancel"):
        core.asks(method, {"taskId": "t1"})
        b.answers(b.gets(method), {"status": "working"})
        assert core.gets_result() == {"status": "working"}
    core.asks("tasks/get", {"taskId": "nobody's"})
    assert core.gets_error()["code"] == -32601


def test_a_method_that_nobody_knows_is_refused_where_several_peers_could_be_meant() -> None:
    desk = Desk({"a": Service(), "b": Service()})
    core = desk.core()
    core.asks("x-vendor/anything")

    assert core.gets_error()["data"]["reason"] == "method_not_found"
    assert desk.services["a"].wires == desk.services["b"].wires == []


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_instructions_of_several_peers_say_whose_they_are(era: Era) -> None:
    peers = {name: PeerConfig(command=["x"], start="eager") for name in ("a", "b")}
    services = {"a": Service(instructions="Add."), "b": Service("modern", instructions="Multiply.")}
    desk = Desk(services, peers=peers)
    core = desk.connect(era)
    params: Message = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {}}
    core.asks("initialize", params) if era == "legacy" else core.asks("server/discover")
    result = core.gets_result()

    assert result["instructions"] == "[a]\nAdd.\n\n[b]\nMultiply."
    assert result.get("protocolVersion") == ("2025-06-18" if era == "legacy" else None)
    assert result.get("supportedVersions") == (["2026-07-28"] if era == "modern" else None)


@pytest.mark.parametrize(("asked", "given"), [("2024-11-05", "2024-11-05"), ("1999-01-01", "2025-11-25")])
def test_a_handshake_is_answered_in_the_version_that_both_know(asked: str, given: str) -> None:
    service = Service("modern", instructions="Add.")
    core = Desk({"calc": service}).connect()
    core.asks("initialize", {"protocolVersion": asked, "capabilities": {}, "clientInfo": {}})
    result = core.gets_result()

    assert (result["protocolVersion"], result["serverInfo"]["name"]) == (given, "calc")
    assert result["instructions"] == "Add."


def test_a_modern_core_is_told_of_a_legacy_peer_in_its_own_words() -> None:
    service = Service("legacy", instructions="Add.")
    core = Desk({"calc": service}).connect("modern")
    core.asks("server/discover")
    result = core.gets_result()

    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "calc"
    assert (result["supportedVersions"], result["instructions"]) == (["2026-07-28"], "Add.")


def test_a_core_that_writes_a_backslash_before_each_slash_is_known_to_be_modern() -> None:
    desk = Desk({"calc": Service("modern")})
    core = desk.connect("modern")
    meta: Message = {mcp.META_VERSION: "2026-07-28", mcp.META_CAPABILITIES: {}}
    data = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "add", "_meta": meta}}
    )
    core.says(data.replace("/", "\\/").encode())
    assert desk.services["calc"].gets("tools/call")["params"]["_meta"] == meta


def test_a_core_that_says_nothing_of_its_version_is_told_how_to_begin() -> None:
    core = Desk().connect("modern")
    core.says({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})

    assert core.gets_error()["data"]["reason"] == "not_initialized"


@pytest.mark.parametrize(
    "meta",
    [
        {mcp.META_VERSION: "2030-01-01", mcp.META_CAPABILITIES: {}},
        {mcp.META_VERSION: "2026-07-28"},
        {mcp.META_VERSION: "2026-07-28", mcp.META_CAPABILITIES: []},
        {mcp.META_VERSION: 5, mcp.META_CAPABILITIES: {}},
    ],
)
def test_a_modern_request_must_say_its_version_and_what_its_core_can_do(meta: Message) -> None:
    desk = Desk()
    core = desk.connect("modern")
    core.says({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}})

    assert core.gets_error()["data"]["code"] == "invalid_request"
    assert desk.services["calc"].wires == []


def test_what_the_modern_era_has_not_is_unknown_in_it() -> None:
    _, core, calc = table("modern", "legacy")
    for method in ("initialize", "ping", "logging/setLevel", "resources/subscribe"):
        core.asks(method)
        assert core.gets_error()["code"] == -32601
    assert calc.hears_nothing
