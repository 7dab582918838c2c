"""The kit in the stateless era of MCP, and what it logs outside of calls."""

from __future__ import annotations

import pytest

from adapters import kit
from tests.adapters.kit_app import Json, make
from tests.adapters.kit_client import META, Wire, run, stateless


def test_a_listener_of_the_stateless_era_is_acknowledged_first_and_hears_what_it_asked_for() -> None:
    async def work() -> None:
        app = make()
        wire = Wire(app)
        wanted = {"toolsListChanged": True, "resourceSubscriptions": ["shop://hours"], "later": 1}
        wire.say(id="l", method="subscriptions/listen", params=stateless(notifications=wanted))
        first = await wire.until(method="notifications/subscriptions/acknowledged")
        mark = {META + "subscriptionId": "l"}
        del wanted["later"]
        assert first["params"] == {"notifications": wanted, "_meta": mark}
        app.tool(late)
        app.prompt(late)
        app.updated("shop://hours")
        app.updated("shop://other")
        assert await wire.until(method="notifications/tools/list_changed")
        updated = await wire.until(method="notifications/resources/updated")
        assert updated["params"] == {"uri": "shop://hours", "_meta": mark}
        assert wire.heard == []
        wire.say(method="notifications/cancelled", params={"requestId": "l"})
        app.updated("shop://hours")
        assert wire.heard == []

    run(work())


def late() -> str:
    """Come late."""
    return "here"


def test_prompts_and_resources_ask_in_the_stateless_era_as_tools_do() -> None:
    app = kit.App("asks")

    @app.prompt
    async def write(host: kit.Host, about: str) -> str:
        return f"write {about} in {await host.ui.select('which', ['prose', 'verse'])}"

    @app.resource("ask://{name}")
    async def read(ctx: kit.Context, name: str) -> str:
        return f"{name}: {await ctx.host.ui.confirm('sure?')}"

    async def work() -> None:
        for method, params, answer, said in (
            (
                "prompts/get",
                {"name": "write", "arguments": {"about": "x"}},
                {"value": "verse"},
                "write x in verse",
            ),
            ("resources/read", {"uri": "ask://a"}, {}, "a: True"),
        ):
            wire = Wire(app)
            can: Json = {"elicitation": {}}
            wire.say(id=1, method=method, params=stateless(can, **params))
            first = (await wire.until(id=1))["result"]
            assert first["resultType"] == "input_required"
            answers = {key: {"action": "accept", "content": answer} for key in first["inputRequests"]}
            again = stateless(can, **params, inputResponses=answers, requestState=first["requestState"])
            wire.say(id=2, method=method, params=again)
            assert said in str((await wire.until(id=2))["result"])
            changed: Json = {"uri": "ask://b"} if "uri" in params else {"name": "write", "arguments": {}}
            other: Json = {**again, **changed}
            wire.say(id=3, method=method, params=other)
            assert (await wire.until(id=3))["error"]["code"] == -32602

    run(work())


def test_what_is_logged_outside_of_calls_goes_to_whoever_is_there_and_else_to_stderr(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def work() -> None:
        app = kit.App("logs")
        app.log.error("nobody is there")
        wire = Wire(app)
        wire.shake_hands()
        app.log.info("%s is there", "somebody")
        assert wire.heard.pop()["params"] == {"level": "info", "logger": "logs", "data": "somebody is there"}
        app.log.debug("too low for who has set no level")
        assert wire.heard == []

    run(work())
    assert capsys.readouterr().err == "logs: error: nobody is there\n"
