"""Results of tools against their output schemas: passed on, flagged or refused, as configured."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.calls.inputs import Inputs
from gateway.calls.results import Results
from gateway.config.model import CatalogConfig
from tests.gateway.calls.kit import Client, Desk, Service

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
}
TOOL: dict[str, Any] = {"name": "add", "outputSchema": SCHEMA}
WRONG: dict[str, Any] = {"content": [], "structuredContent": {"n": "a secret"}}


def asked(mode: Any, *others: str) -> tuple[Desk, Client, Service]:
    """A core that has listed the tools, and has called one."""
    service = Service(tools=[TOOL])
    services = {"calc": service} | {name: Service(tools=["other"]) for name in others}
    desk = Desk(services, catalog=CatalogConfig(validate_results=mode))
    core = desk.core()
    core.asks("tools/list", id=7)
    core.gets()
    core.calls()
    return desk, core, service


@pytest.mark.parametrize("others", [(), ("second",)], ids=["alone", "of two"])
@pytest.mark.parametrize("mode", ["off", "flag", "refuse"])
def test_a_result_that_breaks_its_schema_is_passed_on_flagged_or_refused(
    mode: str, others: tuple[str]
) -> None:
    desk, core, service = asked(mode, *others)
    service.answers(service.gets("tools/call"), WRONG)

    answer = core.gets()
    faults = desk.frames("fault")
    if mode == "refuse":
        data = answer["error"]["data"]
        assert (data["code"], data["reason"], data["outcome"]) == ("io", "output_schema", "completed")
        assert "secret" not in str(answer)
    else:
        assert answer["result"] == WRONG
    if mode == "off":
        assert faults == []
    else:
        (fault,) = faults
        assert (fault.peer, fault.name, fault.x) == (
            "calc",
            "add",
            {
                "reason": "output_schema",
                "message": "`/structuredContent/n` breaks `properties/n/type` of the schema",
            },
        )
        request, response = desk.tap.frames[fault.re or 0], desk.tap.frames[fault.parent or 0]
        assert (request.method, response.kind, response.re) == ("tools/call", "response", fault.re)


@pytest.mark.parametrize(
    "result",
    [
        {"content": [], "structuredContent": {"n": 1}},
        {"content": [], "isError": True},
        {"task": {"taskId": "t", "status": "working"}},
    ],
    ids=["fits", "the tool's own error", "a task"],
)
def test_a_result_that_breaks_no_promise_passes_untouched(result: dict[str, Any]) -> None:
    desk, core, service = asked("refuse")
    service.answers(service.gets("tools/call"), result)

    assert core.gets_result() == result
    assert desk.frames("fault") == []


@pytest.mark.parametrize(
    ("schema", "structured", "complains"),
    [
        (SCHEMA, None, True),
        ({"$ref": "http://127.0.0.1:1/schema"}, {}, False),
        ({"type": 12}, {}, False),
        ([], {}, False),
        ({"type": "object", "properties": {"a": {"pattern": "^(a+)+$"}}}, {"a": "a" * 5000 + "!"}, True),
    ],
    ids=["nothing structured", "elsewhere", "no schema", "no object", "a pattern that could explode"],
)
def test_a_schema_that_cannot_be_used_promises_nothing(
    schema: Any, structured: Any, *, complains: bool
) -> None:
    results = Results()
    results.learn("calc", encoded({"name": "add", "outputSchema": schema}))
    result: dict[str, Any] = {"content": []}
    if structured is not None:
        result["structuredContent"] = structured

    assert bool(results.complaint("calc", "add", encoded(result))) is complains
    results.learn("calc", encoded({"name": "add"}))
    assert results.complaint("calc", "add", encoded(result)) == ""


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


def test_a_value_that_nests_too_deep_for_what_reads_schemas_is_not_taken_and_raises_nothing() -> None:
    deep = b'{"n":' * 300 + b"1" + b"}" * 300
    results, inputs = Results(), Inputs()
    results.learn("p", json.dumps(TOOL).encode())
    schema = json.dumps(SCHEMA).encode()

    assert (
        results.complaint("p", "add", b'{"content":[],"structuredContent":%b}' % deep)
        == "the result nests too deep to be held against its schema"
    )
    assert inputs.complaint(schema, deep) == "`input` nests too deep to be held against the tool's schema"
    assert not inputs.is_taken(schema, deep)
    assert results.complaint("p", "add", b'{"content":[],"structuredContent":{"n":1,"m":%b}}' % deep) == ""
