"""What an HTTP request to the endpoint is, by table: each rule of both eras with a request that breaks it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.protocol import http_rules as rules

MODERN = "2026-07-28"
META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}
VERSION, CAPABILITIES = META
PLAIN = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
LIMIT = 1000


def judge(
    body: bytes | dict[str, Any] | list[Any] = b"",
    /,
    method: str = "POST",
    **headers: Any,
) -> rules.Begin | rules.Deliver | rules.Alone | rules.Listen | rules.End | rules.Refuse:
    """Judge a request; a header given as None is left out, underscores stand for hyphens."""
    given_ = {**PLAIN, **{name.replace("_", "-"): value for name, value in headers.items()}}
    pairs = [(name, value) for name, value in given_.items() if value is not None]
    head = rules.judge_head(method, pairs, LIMIT)
    if not isinstance(head, rules.Post):
        return head
    return rules.judge_body(head, body if isinstance(body, bytes) else json.dumps(body).encode())


def request(method: str = "tools/list", id_: object = 1, **params: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}


def modern(method: str = "tools/list", meta: object = META, **params: object) -> dict[str, Any]:
    return request(method, _meta=meta, **params)


def refused(decision: object) -> tuple[int, int, Any]:
    """The status, the error code and the id of a refusal."""
    assert isinstance(decision, rules.Refuse), decision
    body = json.loads(decision.body)
    return decision.status, body["error"]["code"], body["id"]


def told(decision: object) -> str:
    """What a refusal says to a person."""
    assert isinstance(decision, rules.Refuse), decision
    return json.loads(decision.body)["error"]["message"]


NEW = {"mcp_protocol_version": MODERN, "mcp_method": "tools/list"}
CALL = {"mcp_protocol_version": MODERN, "mcp_method": "tools/call"}
OLD = {"mcp_session_id": "s", "mcp_protocol_version": "2025-11-25"}


# What is let through


def test_an_initialize_without_a_session_begins_one() -> None:
    decision = judge(request("initialize"))
    assert isinstance(decision, rules.Begin)
    assert decision.part.id == 1
    assert isinstance(judge(request("initialize"), mcp_protocol_version="2025-11-25"), rules.Begin)


@pytest.mark.parametrize(
    ("body", "id_"),
    [
        (request(), 1),
        (request(id_="1"), "1"),
        (request("initialize"), 1),
        ({"jsonrpc": "2.0", "method": "notifications/initialized"}, None),
        ({"jsonrpc": "2.0", "id": 4, "result": {}}, None),
        ({"jsonrpc": "2.0", "id": 4, "error": {"code": 1, "message": ""}}, None),
    ],
)
def test_a_message_with_a_session_is_delivered_to_it(body: dict[str, Any], id_: object) -> None:
    decision = judge(body, **OLD)
    assert isinstance(decision, rules.Deliver)
    assert decision.session == "s"
    assert decision.version == "2025-11-25"
    assert [part.id for part in decision.parts] == [id_]
    assert json.loads(decision.parts[0].data) == body


def test_a_batch_is_taken_apart_in_the_one_revision_that_had_them() -> None:
    batch = [request(), {"jsonrpc": "2.0", "method": "x"}, request(id_="1")]
    decision = judge(batch, mcp_session_id="s", mcp_protocol_version="2025-03-26")
    assert isinstance(decision, rules.Deliver)
    assert [part.id for part in decision.parts] == [1, None, "1"]
    assert [json.loads(part.data) for part in decision.parts] == batch
    assert refused(judge(batch, **OLD))[:2] == (400, -32600)
    assert refused(judge(batch))[:2] == (400, -32600)
    assert refused(judge([request(), request()], mcp_session_id="s"))[:2] == (400, -32600)
    assert refused(judge([], mcp_session_id="s"))[:2] == (400, -32600)


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (modern(), NEW),
        (modern("tools/call", name="echo"), {**CALL, "mcp_name": "echo"}),
        (modern("tools/call", name="echo"), {**CALL, "mcp_name": "  echo  "}),
        (modern("tools/call", name="ü"), {**CALL, "mcp_name": "=?base64?w7w=?="}),
        (modern("tools/call"), CALL),
        (modern("resources/read", uri="a:b"), {**NEW, "mcp_method": "resources/read", "mcp_name": "a:b"}),
        (modern("initialize"), {**NEW, "mcp_method": "initialize"}),
        (modern("vendor/x"), {**NEW, "mcp_method": "vendor/x", "mcp_name": "ignored"}),
        (modern(), {**NEW, "mcp_session_id": "left over"}),
    ],
)
def test_a_whole_request_of_2026_stands_alone(body: dict[str, Any], headers: dict[str, str]) -> None:
    decision = judge(body, **headers)
    assert isinstance(decision, rules.Alone), decision
    assert decision.part.id == 1
    assert decision.version == MODERN


def test_a_notification_of_2026_stands_alone_and_is_owed_nothing() -> None:
    decision = judge({"jsonrpc": "2.0", "method": "notifications/cancelled"}, mcp_protocol_version=MODERN)
    assert isinstance(decision, rules.Alone)
    assert decision.part.id is None


def test_a_get_listens_and_a_delete_ends() -> None:
    assert judge(method="GET", **OLD) == rules.Listen("s", None, "2025-11-25")
    assert judge(method="GET", mcp_session_id="s", last_event_id="3-1") == rules.Listen("s", "3-1", None)
    assert judge(method="DELETE", **OLD) == rules.End("s")


# What is refused


@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS", "HEAD", "TRACE"])
def test_other_methods_are_refused_with_those_that_are_allowed(method: str) -> None:
    decision = judge(method=method)
    assert isinstance(decision, rules.Refuse)
    assert decision.status == 405
    assert ("allow", "GET, POST, DELETE") in decision.headers
    assert "GET, POST, DELETE" in told(decision)


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_2026_knows_only_posts(method: str) -> None:
    decision = judge(method=method, mcp_protocol_version=MODERN)
    assert isinstance(decision, rules.Refuse)
    assert decision.status == 405
    assert ("allow", "POST") in decision.headers
    assert "takes POST," in told(decision)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content_type": None}, 415),
        ({"content_type": "text/plain"}, 415),
        ({"content_type": "application/x-www-form-urlencoded"}, 415),
        ({"accept": "application/json"}, 406),
        ({"accept": "text/event-stream"}, 406),
        ({"accept": "text/html"}, 406),
        ({"content_length": "1001"}, 413),
        ({"content_length": "9" * 40}, 413),
    ],
)
@pytest.mark.parametrize("era", [{}, NEW])
def test_a_post_with_the_wrong_headers_is_refused_before_its_body_is_read(
    headers: dict[str, str | None], status: int, era: dict[str, str]
) -> None:
    pairs = [(name.replace("_", "-"), value) for name, value in {**PLAIN, **era, **headers}.items()]
    given_ = {**dict(pairs), **{name.replace("_", "-"): value for name, value in headers.items()}}
    head = rules.judge_head(
        "POST", [(name, value) for name, value in given_.items() if value is not None], LIMIT
    )
    assert isinstance(head, rules.Refuse)
    assert head.status == status


@pytest.mark.parametrize(
    "accept", [None, "*/*", "application/*, text/*", "text/event-stream;q=0.9, APPLICATION/JSON"]
)
def test_wild_cards_and_no_accept_header_accept_both(accept: str | None) -> None:
    assert isinstance(judge(request("initialize"), accept=accept), rules.Begin)


def test_a_content_type_may_have_parameters() -> None:
    assert isinstance(
        judge(request("initialize"), content_type="Application/JSON; charset=utf-8"), rules.Begin
    )


def test_a_get_must_accept_events() -> None:
    assert refused(judge(method="GET", accept="application/json", **OLD))[0] == 406


@pytest.mark.parametrize("method", ["GET", "DELETE", "POST"])
def test_a_session_must_be_named(method: str) -> None:
    decision = judge(request(), method=method)
    assert refused(decision)[:2] == (400, -32600)
    assert "initialize" in told(decision)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b"\xff\xfe", -32700),
        (b'{"a":' * 100_000, -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}', -32700),
        (b"[]", -32600),
        (b"1", -32600),
        (b"{}", -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"x"}', -32600),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"x"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","result":{}}', -32600),
    ],
)
@pytest.mark.parametrize("era", [OLD, NEW])
def test_what_is_no_message_is_refused(body: bytes, code: int, era: dict[str, str]) -> None:
    assert refused(judge(body, **era))[:2] == (400, code)


@pytest.mark.parametrize(
    "meta",
    [
        None,
        "text",
        [],
        {},
        {"io.modelcontextprotocol/protocolVersion": MODERN},
        {"io.modelcontextprotocol/clientCapabilities": {}},
    ],
)
def test_an_envelope_without_its_members_is_refused(meta: object) -> None:
    assert refused(judge(modern(meta=meta), **NEW)) == (400, -32602, 1)


@pytest.mark.parametrize("params", [{}, {"params": {}}, {"params": []}, {"params": None}])
def test_params_without_an_envelope_are_refused(params: dict[str, Any]) -> None:
    assert refused(judge({"jsonrpc": "2.0", "id": 1, "method": "tools/list", **params}, **NEW)) == (
        400,
        -32602,
        1,
    )


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (modern(), {"mcp_protocol_version": MODERN}),
        (modern(), {"mcp_protocol_version": MODERN, "mcp_method": "prompts/list"}),
        (modern(), {"mcp_protocol_version": MODERN, "mcp_method": "TOOLS/LIST"}),
        (modern(), {"mcp_method": "tools/list"}),
        (modern(), {"mcp_method": "tools/list", "mcp_protocol_version": "2025-11-25", "mcp_session_id": "s"}),
        (modern(meta={**META, "io.modelcontextprotocol/protocolVersion": "v999"}), NEW),
        (modern(meta={**META, "io.modelcontextprotocol/protocolVersion": 7}), NEW),
        (modern("tools/call", name="echo"), CALL),
        (modern("tools/call", name="echo"), {**CALL, "mcp_name": "other"}),
        (modern("tools/list", name="echo"), {**CALL, "mcp_name": "echo"}),
        (
            modern("tools/call", meta={**META, VERSION: "2025-11-25"}, name="echo"),
            {**CALL, "mcp_name": "echo"},
        ),
        (modern("tools/call", name="echo"), {**CALL, "mcp_name": "=?base64?!!?="}),
        (modern("tools/call", name=5), {**CALL, "mcp_name": "5"}),
        (modern("prompts/get", name="p"), {**NEW, "mcp_method": "prompts/get", "mcp_name": "q"}),
        (modern("resources/read", uri="a"), {**NEW, "mcp_method": "resources/read"}),
    ],
)
def test_headers_that_contradict_the_body_are_refused(body: dict[str, Any], headers: dict[str, str]) -> None:
    assert refused(judge(body, **headers)) == (400, -32020, 1)


@pytest.mark.parametrize("name", ["mcp-protocol-version", "mcp-method", "mcp-name"])
def test_a_routing_header_that_stands_twice_is_refused(name: str) -> None:
    headers = {**PLAIN, "mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "echo"}
    pairs = [*headers.items(), (name, headers[name])]
    head = rules.judge_head("POST", pairs, LIMIT)
    assert isinstance(head, rules.Post)
    body = json.dumps(modern("tools/call", name="echo")).encode()
    assert refused(rules.judge_body(head, body)) == (400, -32020, 1)


def test_an_unknown_version_is_refused_with_those_that_are_spoken() -> None:
    meta = {**META, "io.modelcontextprotocol/protocolVersion": "v999.0.0"}
    decision = judge(modern(meta=meta), mcp_protocol_version="v999.0.0", mcp_method="tools/list")
    assert refused(decision) == (400, -32022, 1)
    assert isinstance(decision, rules.Refuse)
    data = json.loads(decision.body)["error"]["data"]
    assert data == {"supported": [MODERN], "requested": "v999.0.0"}
    told = judge({"jsonrpc": "2.0", "method": "x"}, mcp_protocol_version="v999.0.0")
    assert refused(told) == (400, -32022, None)


GOOD_META = f'"_meta":{{"{VERSION}":"{MODERN}","{CAPABILITIES}":{{}}}}'
OLD_META = GOOD_META.replace(MODERN, "2025-11-25")
odd_metas = st.lists(
    st.sampled_from([
        f'"{VERSION}":"{MODERN}"', f'"{VERSION}":"2025-11-25"', f'"{VERSION}":7', f'"{CAPABILITIES}":{{}}',
        f'"{CAPABILITIES}":null', '"progressToken":1',
    ]),
    max_size=3,
).map(lambda pairs: f'"_meta":{{{",".join(pairs)}}}')  # fmt: skip
odd_members = odd_metas | st.sampled_from([
    GOOD_META, OLD_META, '"name":"echo"', '"name":"\\u0065cho"', '"name":" echo"', '"name":"ü"', '"name":5',
    '"name":null', '"name":""', '"_meta":[]', '"arguments":{"name":"other"}', '"uri":7',
])  # fmt: skip
params_of_call = (
    st.tuples(st.just('"name":"echo"'), st.sampled_from([GOOD_META, OLD_META]) | odd_metas, odd_members)
    | st.tuples(odd_members, st.just(GOOD_META))
    | st.lists(odd_members, max_size=3).map(tuple)
).flatmap(st.permutations)
headers_of_call = st.sampled_from([
    {}, {}, {}, {"mcp-protocol-version": "2025-11-25"}, {"mcp-protocol-version": "v9"}, {"mcp-method": "tools/list"},
    {"mcp-method": " tools/call"}, {"mcp-name": " echo "}, {"mcp-name": "other"}, {"mcp-name": "=?base64?w7w=?="},
    {"mcp-name": "=?base64?!!?="}, {"mcp-name": "5"}, {"mcp-name": ""}, {"mcp-session-id": "s"},
]).map(lambda odd: {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "echo"} | odd)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    params=params_of_call,
    headers=headers_of_call,
    twice=st.sampled_from(["", "", "mcp-protocol-version", "mcp-method", "mcp-name", "mcp-session-id"]),
    method=st.sampled_from(["tools/call", "tools/call", "tools/list"]),
)
def test_a_call_whose_headers_are_known_to_be_in_order_is_judged_as_any_other(
    params: list[str], headers: dict[str, str], twice: str, method: str
) -> None:
    pairs = [*PLAIN.items(), *headers.items(), *((twice, headers[twice]) for _ in range(twice in headers))]
    body = f'{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{",".join(params)}}}}}'.encode()
    head = rules.judge_head("POST", pairs, LIMIT)
    assert isinstance(head, rules.Post)
    rule_by_rule = rules.judge_body(msgspec.structs.replace(head, called=None), body)
    assert rules.judge_body(head, body) == rule_by_rule


def test_the_headers_of_a_call_name_its_tool_only_where_all_of_them_are_in_order() -> None:
    headers = {**PLAIN, "mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "echo"}

    def called(*more: tuple[str, str], **other: str) -> str | None:
        given_ = headers | {name.replace("_", "-"): value for name, value in other.items()}
        head = rules.judge_head("POST", [*given_.items(), *more], LIMIT)
        assert isinstance(head, rules.Post)
        return head.called

    assert called() == called(mcp_name="=?base64?ZWNobw==?=") == called(("x", "1"), ("x", "2")) == "echo"
    odd = [
        called(mcp_method="tools/list"),
        called(mcp_protocol_version="2025-11-25"),
        called(mcp_name="=?base64?!!?="),
    ]
    assert [*odd, called(("mcp-name", "echo")), called(("mcp-method", "tools/call"))] == [None] * 5


def test_a_client_of_2026_sends_no_responses() -> None:
    assert refused(judge({"jsonrpc": "2.0", "id": 1, "result": {}}, mcp_protocol_version=MODERN))[:2] == (
        400,
        -32600,
    )


def test_a_marker_inside_a_value_does_not_change_the_era() -> None:
    text = "io.modelcontextprotocol/protocolVersion"
    assert isinstance(judge(request("tools/call", name=text), **OLD), rules.Deliver)
    assert isinstance(judge(request(_meta={"note": text}), **OLD), rules.Deliver)
    legacy_meta = {text: "2025-11-25"}
    assert isinstance(judge(request(_meta=legacy_meta), **OLD), rules.Deliver)


def test_a_marker_with_escaped_slashes_is_one() -> None:
    body = json.dumps(modern()).replace("/", "\\/").encode()
    assert isinstance(judge(body, **NEW), rules.Alone)
    assert refused(judge(body))[:2] == (400, -32020), "as without a header that names the version"
    assert refused(judge(modern()))[:2] == (400, -32020)


# The status of an answer


@pytest.mark.parametrize(
    ("code", "status"),
    [
        *((code, 400) for code in (-32700, -32600, -32602, -32020, -32021, -32022)),
        (-32601, 404),
        *((code, 200) for code in (-32603, -32000, 7)),
    ],
)
def test_an_error_has_the_status_of_its_code(code: int, status: int) -> None:
    answer = json.dumps({"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": "no"}}).encode()
    assert rules.status_of(answer) == status
    assert rules.is_error(answer)


def test_a_result_has_status_200_also_where_it_looks_like_an_error() -> None:
    answer = b'{"jsonrpc":"2.0","id":1,"result":{"error":{"code":-32601}}}'
    assert rules.status_of(answer) == 200
    assert not rules.is_error(answer)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
MEMBERS = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | JSON,
        "id": JSON,
        "method": st.sampled_from(["initialize", "tools/call", "tools/list"]) | JSON,
        "params": st.fixed_dictionaries(
            {}, optional={"_meta": st.just(META) | JSON, "name": JSON, "uri": JSON}
        )
        | JSON,
        "result": JSON,
        "error": JSON,
    },
)
HEADERS = st.lists(
    st.tuples(
        st.sampled_from(["mcp-protocol-version", "mcp-method", "mcp-name", "mcp-session-id", "accept"]),
        st.sampled_from([MODERN, "2025-11-25", "2025-03-26", "tools/call", "s", "*/*", "=?base64?x?="])
        | st.text(max_size=5),
    ),
    max_size=6,
)


@given(
    body=MEMBERS.map(lambda members: json.dumps(members).encode())
    | JSON.map(lambda value: json.dumps(value).encode())
    | st.binary(max_size=40),
    headers=HEADERS,
    method=st.sampled_from(["POST", "GET", "DELETE", "PUT"]),
)
def test_every_request_gets_a_decision(body: bytes, headers: rules.Headers, method: str) -> None:
    head = rules.judge_head(method, [("content-type", "application/json"), *headers], LIMIT)
    decision = rules.judge_body(head, body) if isinstance(head, rules.Post) else head
    if isinstance(decision, rules.Refuse):
        assert 400 <= decision.status < 500
        assert not decision.body or "error" in json.loads(decision.body)
