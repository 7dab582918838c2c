"""The prompts and resources of the everything server, under the names that the conformance suite asks for.

Owns their text; knows nothing of transports or eras but for the one error code that changed between them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from typing import Final

import mcp_types as types
from mcp.shared.exceptions import MCPError

from tests.conformance.everything_tools import PNG, WATCHED, Hub, embedded, image, text
from tests.conformance.questions import Talk, elicit

RESOURCE_NOT_FOUND_LEGACY: Final = -32002
"""What a missing resource was called up to 2025-11-25; since then it is -32602."""

RESOURCES: Final = [
    types.Resource(
        uri="test://static-text", name="Static text", description="A text that stays", mime_type="text/plain"
    ),
    types.Resource(
        uri="test://static-binary", name="Static image", description="One red pixel", mime_type="image/png"
    ),
    types.Resource(uri=WATCHED, name="Watched", description="Changes when told to", mime_type="text/plain"),
]

TEMPLATES: Final = [
    types.ResourceTemplate(
        uri_template="test://template/{id}/data",
        name="Data by id",
        description="One record",
        mime_type="application/json",
    )
]

_TEMPLATE_URI: Final = re.compile(r"test://template/([^/]+)/data")


def read(uri: str, *, modern: bool) -> types.ReadResourceResult:
    """The content of `uri`.

    Raises:
        MCPError: there is no such resource; the code is the era's, `data.uri` is what was asked for.
    """
    content: types.TextResourceContents | types.BlobResourceContents
    if uri == "test://static-text":
        body = "This is the content of the static text resource."
        content = types.TextResourceContents(uri=uri, mime_type="text/plain", text=body)
    elif uri == "test://static-binary":
        content = types.BlobResourceContents(uri=uri, mime_type="image/png", blob=PNG)
    elif uri == WATCHED:
        content = types.TextResourceContents(uri=uri, mime_type="text/plain", text="Watched resource content")
    elif match := _TEMPLATE_URI.fullmatch(uri):
        data = {"id": match[1], "templateTest": True, "data": f"Data for ID: {match[1]}"}
        content = types.TextResourceContents(uri=uri, mime_type="application/json", text=json.dumps(data))
    else:
        code = types.INVALID_PARAMS if modern else RESOURCE_NOT_FOUND_LEGACY
        raise MCPError(code, "Resource not found", {"uri": uri})
    return types.ReadResourceResult(contents=[content])


PromptBody = Callable[[Talk], Awaitable[types.GetPromptResult]]


def _messages(*blocks: types.ContentBlock) -> types.GetPromptResult:
    return types.GetPromptResult(
        messages=[types.PromptMessage(role="user", content=block) for block in blocks]
    )


async def _simple(talk: Talk) -> types.GetPromptResult:
    return _messages(text("This is a simple prompt for testing."))


async def _with_arguments(talk: Talk) -> types.GetPromptResult:
    given = talk.arguments
    return _messages(text(f"Prompt with arguments: arg1='{given.get('arg1')}', arg2='{given.get('arg2')}'"))


async def _with_resource(talk: Talk) -> types.GetPromptResult:
    uri = str(talk.arguments.get("resourceUri"))
    return _messages(
        embedded(uri, "text/plain", "Embedded resource content for testing."),
        text("Please process the embedded resource above."),
    )


async def _with_image(talk: Talk) -> types.GetPromptResult:
    return _messages(image(), text("Please analyze the image above."))


async def _with_question(talk: Talk) -> types.GetPromptResult:
    form = elicit("What context should the prompt use?", {"context": {"type": "string"}})
    answer = (await talk.ask(user_context=form))["user_context"]
    return _messages(text(f"Use this context: {answer.get('content', {}).get('context')}"))


def _prompt(name: str, description: str, **arguments: str) -> types.Prompt:
    wanted = [
        types.PromptArgument(name=key, description=what, required=True) for key, what in arguments.items()
    ]
    return types.Prompt(name=name, description=description, arguments=wanted or None)


PROMPTS: Final[dict[str, tuple[types.Prompt, PromptBody]]] = {
    prompt.name: (prompt, body)
    for prompt, body in (
        (_prompt("test_simple_prompt", "A prompt without arguments"), _simple),
        (
            _prompt("test_prompt_with_arguments", "A prompt with two arguments", arg1="First", arg2="Second"),
            _with_arguments,
        ),
        (
            _prompt(
                "test_prompt_with_embedded_resource", "A prompt with a resource", resourceUri="What to embed"
            ),
            _with_resource,
        ),
        (_prompt("test_prompt_with_image", "A prompt with an image"), _with_image),
        (_prompt("test_input_required_result_prompt", "A prompt that asks first"), _with_question),
    )
}

EXTRA_PROMPT: Final = _prompt("test_extra_prompt", "Comes and goes")


def prompts(hub: Hub) -> list[types.Prompt]:
    """The prompts as they stand, always in the same order."""
    return [prompt for prompt, _ in PROMPTS.values()] + ([EXTRA_PROMPT] if hub.extra_prompt else [])


async def get_prompt(name: str, talk: Talk) -> types.GetPromptResult:
    """Render the prompt `name`.

    Raises:
        MCPError: -32602, there is no such prompt.
        InputRequiredError: it asks something that has not been answered (2026).
    """
    if name == EXTRA_PROMPT.name:
        return await _simple(talk)
    if name not in PROMPTS:
        raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {name}")
    return await PROMPTS[name][1](talk)
