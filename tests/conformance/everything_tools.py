"""The tools of the everything server: one function each, under the names that the conformance suite calls.

Owns what a tool says and asks; how it asks in either era is `questions.Talk`. Tells the rest of the server
about changes through the `Hub`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias
from weakref import WeakSet

import anyio
import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    PromptsListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared.subscriptions import event_to_notification

from tests.conformance.questions import Talk, elicit, roots, sample

PNG: Final = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108020000009077"
        "53de0000000c49444154789c63f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
    )
).decode()
"""One red pixel."""

WAV: Final = base64.b64encode(
    b"RIFF"
    + (36).to_bytes(4, "little")
    + b"WAVEfmt "
    + (16).to_bytes(4, "little")
    + b"\x01\x00\x01\x00\x40\x1f\x00\x00\x40\x1f\x00\x00\x01\x00\x08\x00data"
    + bytes(4)
).decode()
"""A sound of no length."""

WATCHED: Final = "test://watched-resource"

Body: TypeAlias = Callable[["Hub", Talk], Awaitable[types.CallToolResult | str]]


@dataclass
class Hub:
    """What the calls of one server share: its listeners, and which extra tool and prompt it shows."""

    bus: InMemorySubscriptionBus = field(default_factory=InMemorySubscriptionBus)
    sessions: WeakSet[Connection] = field(default_factory=WeakSet[Connection])
    extra_tool: bool = False
    extra_prompt: bool = False

    async def publish(self, event: ServerEvent) -> None:
        """Tell listen streams (2026) and sessions (before) that something changed."""
        await self.bus.publish(event)
        payload = event_to_notification(event, {}).model_dump(by_alias=True, mode="json", exclude_none=True)
        for session in list(self.sessions):
            if isinstance(event, ResourceUpdated) and event.uri not in session.state.get("uris", ()):
                continue
            await session.notify(payload["method"], payload.get("params"))


@dataclass(frozen=True)
class Entry:
    """A tool and what it does."""

    tool: types.Tool
    body: Body


TOOLS: Final[dict[str, Entry]] = {}


def tool(description: str, schema: dict[str, Any] | None = None) -> Callable[[Body], Body]:
    """Register a function as the tool of its name."""

    def register(body: Body) -> Body:
        name = body.__name__
        TOOLS[name] = Entry(
            types.Tool(name=name, description=description, input_schema=schema or {"type": "object"}), body
        )
        return body

    return register


def arguments(**properties: str) -> dict[str, Any]:
    """A schema of required strings with these descriptions."""
    return {
        "type": "object",
        "properties": {name: {"type": "string", "description": text} for name, text in properties.items()},
        "required": list(properties),
    }


def text(value: str) -> types.TextContent:
    """A text block."""
    return types.TextContent(type="text", text=value)


def image() -> types.ImageContent:
    """An image block."""
    return types.ImageContent(type="image", data=PNG, mime_type="image/png")


def embedded(uri: str, mime_type: str, body: str) -> types.EmbeddedResource:
    """A text resource as a block."""
    return types.EmbeddedResource(
        type="resource", resource=types.TextResourceContents(uri=uri, mime_type=mime_type, text=body)
    )


@tool("Returns one line of text.")
async def test_simple_text(hub: Hub, talk: Talk) -> str:
    return "This is a simple text response for testing."


@tool("Returns one image.")
async def test_image_content(hub: Hub, talk: Talk) -> types.CallToolResult:
    return types.CallToolResult(content=[image()])


@tool("Returns one sound.")
async def test_audio_content(hub: Hub, talk: Talk) -> types.CallToolResult:
    return types.CallToolResult(content=[types.AudioContent(type="audio", data=WAV, mime_type="audio/wav")])


@tool("Returns one embedded resource.")
async def test_embedded_resource(hub: Hub, talk: Talk) -> types.CallToolResult:
    block = embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")
    return types.CallToolResult(content=[block])


@tool("Returns text, an image and a resource.")
async def test_multiple_content_types(hub: Hub, talk: Talk) -> types.CallToolResult:
    resource = embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
    return types.CallToolResult(content=[text("Multiple content types test:"), image(), resource])


@tool("Logs three times while it runs.")
async def test_tool_with_logging(hub: Hub, talk: Talk) -> str:
    await talk.log("info", "Tool execution started")
    await anyio.sleep(0.05)
    await talk.log("info", "Tool processing data")
    await anyio.sleep(0.05)
    await talk.log("info", "Tool execution completed")
    return "Logged three times."


@tool("Logs once, where the client wants it.")
async def test_logging_tool(hub: Hub, talk: Talk) -> str:
    await talk.log("error", "This tool logs an error")
    return "Logged once."


@tool("Fails, always.")
async def test_error_handling(hub: Hub, talk: Talk) -> types.CallToolResult:
    return types.CallToolResult(
        is_error=True, content=[text("This tool intentionally returns an error for testing")]
    )


@tool("Reports progress three times.")
async def test_tool_with_progress(hub: Hub, talk: Talk) -> str:
    for step in (0, 50, 100):
        await talk.ctx.session.report_progress(step, 100, f"Completed step {step} of 100")
        await anyio.sleep(0.05)
    return "Progress reported."


@tool("Asks the client's model.", arguments(prompt="What to ask the model"))
async def test_sampling(hub: Hub, talk: Talk) -> str:
    talk.require(sampling=True)
    answer = (await talk.ask(sampled=sample(talk.arguments["prompt"])))["sampled"]
    return f"LLM response: {answer['content'].get('text')}"


@tool("Asks the client's user.", arguments(message="What to ask the user"))
async def test_elicitation(hub: Hub, talk: Talk) -> str:
    talk.require(elicitation=True)
    form = elicit(
        talk.arguments["message"],
        {
            "username": {"type": "string", "description": "User's response"},
            "email": {"type": "string", "description": "User's email address"},
        },
    )
    answer = (await talk.ask(response=form))["response"]
    return f"User response: {json.dumps(answer, sort_keys=True)}"


@tool("Asks the user with a default for every primitive type.")
async def test_elicitation_sep1034_defaults(hub: Hub, talk: Talk) -> str:
    form = elicit(
        "Please review and update your information",
        {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            "verified": {"type": "boolean", "default": True},
        },
        required=[],
    )
    return _completed((await talk.ask(profile=form))["profile"])


@tool("Asks the user with every kind of choice.")
async def test_elicitation_sep1330_enums(hub: Hub, talk: Talk) -> str:
    options = ["option1", "option2", "option3"]
    titled = [
        {"const": f"value{n}", "title": f"{word} Option"} for n, word in enumerate(("First", "Second"), 1)
    ]
    form = elicit(
        "Please select options",
        {
            "untitledSingle": {"type": "string", "enum": options},
            "titledSingle": {"type": "string", "oneOf": titled},
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled}},
        },
        required=[],
    )
    return _completed((await talk.ask(choices=form))["choices"])


def _completed(answer: Any) -> str:
    content = json.dumps(answer.get("content", {}), sort_keys=True)
    return f"Elicitation completed: action={answer['action']}, content={content}"


_NAME: Final = {"name": {"type": "string"}}


@tool("Asks for a name, in one round.")
async def test_input_required_result_elicitation(hub: Hub, talk: Talk) -> str:
    answer = (await talk.ask(user_name=elicit("What is your name?", _NAME)))["user_name"]
    return f"Hello, {answer.get('content', {}).get('name')}!"


@tool("Asks the model for a capital, in one round.")
async def test_input_required_result_sampling(hub: Hub, talk: Talk) -> str:
    answer = await talk.ask(capital_question=sample("What is the capital of France?"))
    return f"The model said: {answer['capital_question']['content'].get('text')}"


@tool("Asks for the roots, in one round.")
async def test_input_required_result_list_roots(hub: Hub, talk: Talk) -> str:
    answer = await talk.ask(client_roots=roots())
    return "Roots: " + ", ".join(root["uri"] for root in answer["client_roots"]["roots"])


@tool("Asks for a confirmation and checks the state that comes back.")
async def test_input_required_result_request_state(hub: Hub, talk: Talk) -> str:
    return f"state-ok: {await _confirmed(talk)}"


@tool("Asks for a confirmation under a sealed state.")
async def test_input_required_result_tampered_state(hub: Hub, talk: Talk) -> str:
    return f"state-ok: {await _confirmed(talk)}"


async def _confirmed(talk: Talk) -> str:
    form = elicit("Please confirm", {"ok": {"type": "boolean"}})
    return str((await talk.ask(confirm=form))["confirm"]["action"])


@tool("Asks user, model and roots at once.")
async def test_input_required_result_multiple_inputs(hub: Hub, talk: Talk) -> str:
    answers = await talk.ask(
        user_name=elicit("What is your name?", _NAME),
        greeting=sample("Generate a greeting", max_tokens=50),
        client_roots=roots(),
    )
    return f"Got {', '.join(sorted(answers))}."


@tool("Asks for a name, then for a colour.")
async def test_input_required_result_multi_round(hub: Hub, talk: Talk) -> str:
    first = (await talk.ask(step1=elicit("Step 1: What is your name?", _NAME)))["step1"]
    color = elicit("Step 2: What is your favorite color?", {"color": {"type": "string"}})
    second = (await talk.ask(step2=color))["step2"]
    return f"{first.get('content', {}).get('name')} likes {second.get('content', {}).get('color')}."


@tool("Asks only what the client says it can answer.")
async def test_input_required_result_capabilities(hub: Hub, talk: Talk) -> str:
    questions: dict[str, Any] = {}
    if talk.capabilities.sampling is not None:
        questions["model_answer"] = sample("Say something")
    if talk.capabilities.elicitation is not None:
        questions["user_answer"] = elicit("Say something", _NAME)
    answers = await talk.ask(**questions) if questions else {}
    return f"Got {', '.join(sorted(answers)) or 'nothing'}."


@tool("Needs a model behind the client, and says so where there is none.")
async def test_missing_capability(hub: Hub, talk: Talk) -> str:
    talk.require(sampling=True)
    answer = await talk.ask(sampled=sample("Say something"))
    return f"The model said: {answer['sampled']['content'].get('text')}"


@tool("Asks the user in the middle of a stream.")
async def test_streaming_elicitation(hub: Hub, talk: Talk) -> str:
    await talk.ctx.session.report_progress(0, 2, "asking")
    answer = (await talk.ask(user_name=elicit("What is your name?", _NAME)))["user_name"]
    return f"Hello, {answer.get('content', {}).get('name')}!"


@tool("Shows or hides a tool.")
async def test_trigger_tool_change(hub: Hub, talk: Talk) -> str:
    hub.extra_tool = not hub.extra_tool
    await hub.publish(ToolsListChanged())
    return "The list of tools changed."


@tool("Shows or hides a prompt.")
async def test_trigger_prompt_change(hub: Hub, talk: Talk) -> str:
    hub.extra_prompt = not hub.extra_prompt
    await hub.publish(PromptsListChanged())
    return "The list of prompts changed."


@tool("Changes the watched resource.")
async def test_trigger_resource_update(hub: Hub, talk: Talk) -> str:
    await hub.publish(ResourceUpdated(WATCHED))
    return "The resource changed."


@tool(
    "Takes a region that travels in a header too.",
    {
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}, "query": {"type": "string"}},
        "required": ["query"],
    },
)
async def test_x_mcp_header(hub: Hub, talk: Talk) -> str:
    return f"region={talk.arguments.get('region')} query={talk.arguments.get('query')}"


@tool(
    "Tool with JSON Schema 2020-12 features",
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
)
async def json_schema_2020_12_tool(hub: Hub, talk: Talk) -> str:
    return json.dumps(dict(talk.arguments), sort_keys=True)
