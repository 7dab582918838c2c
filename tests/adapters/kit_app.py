"""An extension with one of everything that the kit has, for its tests."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jsonschema_rs
import msgspec
import pytest

from adapters import kit
from adapters.kit.app import Dialect

DIALECTS: tuple[Dialect, ...] = ("mcp", "pi")
SEED = Path(__file__).parents[1] / "gateway" / "protocol" / "pi_extension_protocol.json"
schema = jsonschema_rs.Draft202012Validator(json.loads(SEED.read_text()))
both = pytest.mark.parametrize("dialect", DIALECTS)
Json = dict[str, Any]


@dataclass
class Point:
    x: int
    y: int = 0


class Order(msgspec.Struct):
    """What is wanted."""

    name: str
    size: Literal["small", "large"] = "small"
    where: Point | None = None


class Confirm(msgspec.Struct):
    sure: bool
    color: Literal["red", "blue"]
    count: int


class ToolEvent(msgspec.Struct, rename="camel"):
    tool_name: str


def ran(params: Json) -> Json:
    return {"stdout": params["cmd"], "code": 0}


def sampled(params: Json) -> Json:
    return {"role": "assistant", "max": params["maxTokens"]}


def rooted(_: Json) -> Json:
    return {"roots": [{"uri": "file:///work"}]}


def make() -> kit.App:  # noqa: C901 - one of each
    needs = ["exec", kit.Requirement(capability="http", scope=kit.Scope(hosts=["example.com"]))]
    declares = {"shortcuts": [{"key": "ctrl+y", "description": "Buy"}]}
    app = kit.App("shop", "2.1", instructions="Sells.", needs=needs, declares=declares)

    @app.tool(title="Order", read_only=False)
    async def order(ctx: kit.Context, what: Order, times: list[int], note: str | None = None) -> Order:
        """Order something.

        Args:
            times: When.
        """
        ctx.progress(1, 2, "asked")
        ctx.progress(0.5)
        ctx.log("info", "ordering")
        app.log.warning("%d times", len(times))
        return Order(f"{what.name} {note} {times}", what.size, what.where)

    @app.tool
    def crash(how: Literal["known", "own"]) -> list[int]:
        if how == "known":
            raise kit.ToolError("io", "the disk is full", errno="ENOSPC")
        raise RuntimeError("secret detail")

    @app.tool
    def listed(up_to: int) -> list[int]:
        return list(range(up_to))

    @app.tool
    def picture() -> list[str | kit.Blob]:
        return ["look", kit.Blob(data=b"\x89PNG", mime_type="image/png")]

    @app.tool
    async def ask(ctx: kit.Context) -> str:
        found = await ctx.elicit("Really?", Confirm)
        return f"{found.sure} {found.color} {found.count}"

    @app.tool
    async def chat(host: kit.Host) -> list[Any]:
        ui = host.ui
        await ui.notify("hello")
        return [
            await ui.confirm("ok?", "so"),
            await ui.select("which", ["a", "b"]),
            await ui.input("name"),
            await ui.editor("text", "x"),
            await ui.select("none", ["a"]),
            await ui.confirm("none"),
        ]

    @app.tool
    async def shell(host: kit.Host, method: str = "exec") -> Any:
        return await host.call(method, {"cmd": "ls", "stream": True}, timeout_s=2)

    @app.command
    def greet(name: str, count: int = 1, loud: bool = False, rest: list[str] | None = None) -> str:
        """Greet somebody."""
        return f"hello {name} {count} {loud} {rest}"

    @app.prompt(name="review")
    def prompt(words: str) -> list[kit.Message]:
        return [kit.Message(f"review {words}"), kit.Message("I will", "assistant")]

    @app.resource("shop://{kind}/{+path}")
    def stock(kind: Literal["fruit", "bread"], path: str) -> Any:
        """What there is."""
        return {"kind": kind, "path": path}

    @app.resource("shop://hours")
    def hours() -> str:
        return "always"

    @app.completion("shop://{kind}/{+path}", "path")
    def paths(typed: str, others: dict[str, str]) -> list[str]:
        return [f"{typed}{others.get('kind', '')}{n}" for n in range(120)]

    @app.on("tool_call")
    async def guard(event: ToolEvent, ctx: kit.Context) -> Json | None:
        if event.tool_name == "fail":
            raise RuntimeError("secret detail")
        ctx.log("info", "looked")
        return {"block": True, "reason": "no"} if event.tool_name == "bash" else None

    return app
