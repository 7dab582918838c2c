"""The command that the conformance suite starts to test a client: plays an agent with the gateway in between.

The suite serves one scenario at a URL; here the gateway gets that URL as its only peer, and a client of the
protocol library, connected to the gateway over stdio, does what the scenario wants to see. With
`CONFORMANCE_DIRECT` set the client goes to the URL itself, which tells a fault of a script from one of the
gateway.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import mcp_types as types
import msgspec
from mcp.client.client import Client
from mcp.client.context import ClientRequestContext
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from pydantic import ValidationError

CLIENT_METADATA_URL: Final = "https://conformance-test.local/client-metadata.json"
CALL_S: Final = 20.0

REFUSED: Final = {
    "auth/resource-mismatch",
    "auth/iss-supported-missing",
    "auth/iss-wrong-issuer",
    "auth/iss-unexpected",
    "auth/iss-normalized",
    "auth/metadata-issuer-mismatch",
    "auth/scope-retry-limit",
}
"""Scenarios whose server must not be trusted: here an error is what is wanted."""

Script: TypeAlias = Callable[[Client, dict[str, Any]], Awaitable[None]]


async def _elicited(
    context: ClientRequestContext, params: types.ElicitRequestParams
) -> types.ElicitResult | types.ErrorData:
    """Accept, with each field's default and true where a yes is asked for."""
    if not isinstance(params, types.ElicitRequestFormParams):
        return types.ElicitResult(action="decline")
    content: dict[str, Any] = {}
    for name, schema in params.requested_schema.get("properties", {}).items():
        if "default" in schema:
            content[name] = schema["default"]
        elif schema.get("type") == "boolean":
            content[name] = True
    return types.ElicitResult(action="accept", content=content)


async def _sampled(
    context: ClientRequestContext, params: types.CreateMessageRequestParams
) -> types.CreateMessageResult | types.ErrorData:
    text = types.TextContent(type="text", text="An answer of the model")
    return types.CreateMessageResult(role="assistant", content=text, model="none", stop_reason="endTurn")


async def _roots(context: ClientRequestContext) -> types.ListRootsResult | types.ErrorData:
    return types.ListRootsResult(roots=[])


# -------------------------------------------------------------------------------------------- scripts


async def _list(client: Client, context: dict[str, Any]) -> None:
    await client.list_tools()


async def _call_every_tool(client: Client, context: dict[str, Any]) -> None:
    """Call what is listed, with a value for each required argument."""
    values: dict[str, Any] = {"string": "us-west1", "number": 5, "integer": 5, "boolean": True}
    for tool in (await client.list_tools()).tools:
        properties = tool.input_schema.get("properties", {})
        required = tool.input_schema.get("required", [])
        await client.call_tool(
            tool.name, {name: values.get(properties[name].get("type")) for name in required}
        )


async def _request_state(client: Client, context: dict[str, Any]) -> None:
    await client.list_tools()
    names = ("test_mrtr_echo_state", "test_mrtr_unrelated", "test_mrtr_no_state")
    await asyncio.gather(*(client.call_tool(name, {}) for name in names))
    # A result without `resultType` is complete; that this client's own models refuse it is none of our doing.
    with contextlib.suppress(ValidationError):
        await client.call_tool("test_mrtr_no_result_type", {})


async def _standard_headers(client: Client, context: dict[str, Any]) -> None:
    await _call_every_tool(client, context)
    for resource in (await client.list_resources()).resources:
        await client.read_resource(resource.uri)
    for prompt in (await client.list_prompts()).prompts:
        await client.get_prompt(prompt.name)


async def _given_calls(client: Client, context: dict[str, Any]) -> None:
    await client.list_tools()
    for call in cast("list[dict[str, Any]]", context["toolCalls"]):
        await client.call_tool(call["name"], call["arguments"])


async def _echo_schema(client: Client, context: dict[str, Any]) -> None:
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    schema = tools["json_schema_2020_12_tool"].input_schema
    await client.call_tool("json_schema_echo", {"schema": schema})


SCRIPTS: Final[dict[str, Script]] = {
    "initialize": _list,
    "request-metadata": _list,
    "json-schema-ref-no-deref": _list,
    "json-schema-2020-12-preservation": _echo_schema,
    "sep-2322-client-request-state": _request_state,
    "http-standard-headers": _standard_headers,
    "http-custom-headers": _given_calls,
}
"""What is not here lists the tools and calls each of them."""


# -------------------------------------------------------------------------------------------- targets


def _oauth(scenario: str, context: dict[str, Any]) -> dict[str, str] | None:
    if not scenario.startswith("auth/"):
        return None
    if "client_secret" in context:
        return {"client_id": context["client_id"], "client_secret": context["client_secret"]}
    return {"client_metadata_url": CLIENT_METADATA_URL}


def _browser() -> str:
    """A browser that goes where it is sent, with nobody before it."""
    return f"{shlex.quote(sys.executable)} -m tests.conformance.browser %s &"


@asynccontextmanager
async def _through_gateway(
    url: str, modern: bool, oauth: dict[str, str] | None
) -> AsyncGenerator[StdioServerParameters]:
    with tempfile.TemporaryDirectory(prefix="conformance-client-") as name:
        config = Path(name) / "tieline.toml"
        lines = [f'[record]\ndir = "{name}/recordings"', "[peers.suite]", f"url = {json.dumps(url)}"]
        lines.append(f'era = "{"modern" if modern else "legacy"}"')
        if oauth is not None:
            lines += [
                "[peers.suite.oauth]",
                *(f"{key} = {json.dumps(value)}" for key, value in oauth.items()),
            ]
        config.write_text("\n".join(lines))
        environment = {**os.environ, "TIELINE_STATE_DIR": f"{name}/state", "BROWSER": _browser()}
        program = str(Path(sys.executable).with_name("tieline"))
        yield StdioServerParameters(command=program, args=["run", str(config), "--stdio"], env=environment)


@asynccontextmanager
async def _direct(url: str, oauth: dict[str, str] | None) -> AsyncGenerator[Any]:
    from gateway.config.peer import OAuthConfig
    from gateway.runtime.oauth import peer_auth

    os.environ["BROWSER"] = _browser()
    with tempfile.TemporaryDirectory(prefix="conformance-client-") as name:
        auth = None
        if oauth is not None:
            auth = peer_auth("suite", url, msgspec.convert(oauth, OAuthConfig), directory=Path(name))
        try:
            async with create_mcp_http_client(auth=auth) as http:
                yield streamable_http_client(url, http_client=http)
        finally:
            if auth is not None:
                auth.close()


async def run(url: str, scenario: str, version: str, context: dict[str, Any]) -> None:
    """Play one scenario."""
    modern = version == "2026-07-28"
    oauth = _oauth(scenario, context)
    target = (
        _direct(url, oauth) if os.environ.get("CONFORMANCE_DIRECT") else _through_gateway(url, modern, oauth)
    )
    async with target as reached:
        client = Client(
            reached,
            mode="auto" if modern else "legacy",
            read_timeout_seconds=CALL_S,
            elicitation_callback=_elicited,
            sampling_callback=_sampled,
            list_roots_callback=_roots,
        )
        async with client:
            await SCRIPTS.get(scenario, _call_every_tool)(client, context)


def main() -> int:
    """Read what the suite said and play; 1 where the scenario went wrong."""
    scenario = os.environ["MCP_CONFORMANCE_SCENARIO"]
    version = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "2025-11-25")
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    try:
        asyncio.run(run(sys.argv[-1], scenario, version, context))
    except BaseException as error:
        if scenario not in REFUSED:
            raise
        print(f"refused, as it should be: {error!r}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
