"""An MCP server on stdio, of both eras, that can be another one tomorrow: for replays, and for what verifies.

`varied_peer.py FOLDER [VARIANT …]`: a line is added to `FOLDER/started` at each start and to `FOLDER/called` at each
tool call, so that a test can tell who was asked. Variants change the answers: see `VARIANTS`. Nothing is imported that
takes long.
"""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from collections.abc import Callable
from typing import Any

Message = dict[str, Any]
VARIANTS = {
    "field-added": "`get` answers with one member more",
    "field-removed": "`get` answers without `size`",
    "other-type": "`get` answers with `size` as text",
    "other-value": "`get` answers with another value",
    "failing": "`get` is an error",
    "silent": "`get` is never answered",
    "curious": "`get` asks the user first",
    "fewer-tools": "`get` is not offered",
}
META = "io.modelcontextprotocol/"
LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
GOT = {
    "type": "object",
    "properties": {
        "key": {"type": "string"},
        "value": {"type": "string", "minLength": 3},
        "size": {"type": "integer", "minimum": 1},
    },
    "required": ["key", "value", "size"],
}


def tool(name: str, output: Message | None = None, **annotations: bool) -> Message:
    made: Message = {"name": name, "description": f"The tool {name}.", "inputSchema": {"type": "object"}}
    if output is not None:
        made["outputSchema"] = output
    return made | ({"annotations": annotations} if annotations else {})


class Server:
    def __init__(self, folder: str, variants: set[str]) -> None:
        self.folder, self.variants = folder, variants
        self.handles: set[str] = set()
        self.tasks: dict[str, int] = {}
        self.waiting: dict[Any, Callable[[Message], None]] = {}
        self.questions = 0
        self.note("started", str(os.getpid()))

    def note(self, name: str, line: str) -> None:
        with open(f"{self.folder}/{name}", "a", encoding="utf-8") as file:
            file.write(line + "\n")

    def run(self) -> None:
        for line in sys.stdin:
            message = json.loads(line)
            method, call = message.get("method"), message.get("id")
            if method is None:
                self.waiting.pop(message["id"])(message)
            elif call is not None:
                try:
                    self.serve(method, call, message.get("params") or {})
                except LookupError as fault:
                    error = {"code": -32602, "message": f"no {fault}"}
                    self.send({"id": call, "error": error})

    def send(self, message: Message) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")) + "\n")
        sys.stdout.flush()

    def answer(self, call: Any, result: Message, *, modern: bool) -> None:
        self.send({"id": call, "result": {"resultType": "complete", **result} if modern else result})

    def ask(self, method: str, params: Message, then: Callable[[Message], None]) -> None:
        self.questions += 1
        id_ = f"{os.getpid()}-{self.questions}"
        self.waiting[id_] = then
        self.send({"id": id_, "method": method, "params": params})

    def serve(self, method: str, call: Any, params: Message) -> None:
        modern = META + "protocolVersion" in (params.get("_meta") or {})
        capabilities: Message = {"tools": {}, "resources": {}}
        info = {"name": "varied-peer", "version": "1"}
        cache: Message = {"ttlMs": 0, "cacheScope": "private"} if modern else {}
        if method == "initialize":
            agreed = params.get("protocolVersion") if params.get("protocolVersion") in LEGACY else LEGACY[-1]
            self.answer(
                call,
                {"protocolVersion": agreed, "capabilities": capabilities, "serverInfo": info},
                modern=False,
            )
        elif method == "server/discover" and modern:
            facts = {"supportedVersions": ["2026-07-28"], "capabilities": capabilities}
            self.answer(call, {**facts, **cache, "_meta": {META + "serverInfo": info}}, modern=True)
        elif method == "ping":
            self.answer(call, {}, modern=False)
        elif method == "tools/list":
            self.answer(call, {"tools": self.tools(), **cache}, modern=modern)
        elif method == "resources/list":
            self.answer(call, {**self.page(params.get("cursor")), **cache}, modern=modern)
        elif method == "tools/call":
            self.note("called", params["name"])
            self.call(call, params["name"], params.get("arguments") or {}, params, modern=modern)
        else:
            self.send({"id": call, "error": {"code": -32601, "message": f"no method {method}"}})

    def tools(self) -> list[Message]:
        offered = [
            tool("get", GOT, readOnlyHint=True),
            tool("drop", destructiveHint=True),
            tool("plain"),
            *(tool(name) for name in ("open", "use", "fresh", "elicit", "sample", "start", "poll", "wait")),
        ]
        return [one for one in offered if one["name"] != "get" or "fewer-tools" not in self.variants]

    def page(self, cursor: str | None) -> Message:
        if cursor is None:
            handle = f"cursor-{os.getpid()}"
            self.handles.add(handle)
            return {"resources": [{"uri": "a:1", "name": "one"}], "nextCursor": handle}
        if cursor not in self.handles:
            raise LookupError(f"cursor {cursor}")
        return {"resources": [{"uri": "a:2", "name": "two"}]}

    def call(  # noqa: C901 - one tool after the other
        self, call: Any, name: str, arguments: Message, params: Message, *, modern: bool
    ) -> None:
        def text(words: str, **more: Any) -> None:
            self.answer(call, {"content": [{"type": "text", "text": words}], **more}, modern=modern)

        match name:
            case "get":
                self.get(call, arguments, text)
            case "drop" | "plain":
                text(f"{name} {arguments.get('key')}: done")
            case "open":
                handle = str(uuid.uuid4())
                self.handles.add(handle)
                text(f"opened {handle}", structuredContent={"handle": handle})
            case "use":
                if arguments.get("handle") not in self.handles:
                    raise LookupError(f"handle {arguments.get('handle')}")
                text(f"used {arguments['handle']}")
            case "fresh":
                made = {
                    "order_id": f"ord-{os.getpid()}",
                    "token": str(uuid.uuid4()),
                    "at": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime())}.{time.time_ns() % 10**9:09d}Z",
                    "log": f"/tmp/run-{os.getpid()}/out.log",
                    "took": time.perf_counter_ns(),
                }
                text("made", structuredContent=made)
            case "start":
                task = f"t{os.getpid()}"
                self.tasks[task] = 0
                text("started", structuredContent={"taskId": task})
            case "poll":
                text(f"state {self.tasks[arguments['taskId']]}")
            case "wait":
                pass
            case "elicit":
                self.elicit(call, arguments, params, text, modern=modern)
            case "sample":
                message = {"role": "user", "content": {"type": "text", "text": "Go on."}}
                self.ask(
                    "sampling/createMessage",
                    {"messages": [message], "maxTokens": 5},
                    lambda told: text(f"sampled {said(told)}"),
                )
            case _:
                raise LookupError(f"tool {name}")

    def get(self, call: Any, arguments: Message, text: Callable[..., None]) -> None:
        key = str(arguments.get("key"))
        found: Message = {"key": key, "value": f"value of {key}", "size": len(key)}
        if "field-added" in self.variants:
            found["colour"] = "red"
        if "field-removed" in self.variants:
            del found["size"]
        if "other-type" in self.variants:
            found["size"] = str(found["size"])
        if "other-value" in self.variants:
            found["value"] = f"news of {key}"
        if "failing" in self.variants:
            self.send({"id": call, "error": {"code": -32000, "message": "out of order"}})
        elif "curious" in self.variants:
            question = {"mode": "form", "message": "May I?", "requestedSchema": FORM}
            self.ask(
                "elicitation/create",
                question,
                lambda told: text(f"value of {key}", structuredContent={**found, "told": "result" in told}),
            )
        elif "silent" not in self.variants:
            text(f"value of {key}", structuredContent=found)

    def elicit(
        self, call: Any, arguments: Message, params: Message, text: Callable[..., None], *, modern: bool
    ) -> None:
        question = {"mode": "form", "message": "Who are you?", "requestedSchema": FORM}
        if not modern:
            self.ask("elicitation/create", question, lambda told: text(f"hello {said(told)}"))
        elif "inputResponses" in params:
            if params.get("requestState") not in self.handles:
                raise LookupError(f"request state {params.get('requestState')}")
            text(f"hello {said({'result': params['inputResponses']['who']})}")
        else:
            state = str(uuid.uuid4())
            self.handles.add(state)
            asks = {"who": {"method": "elicitation/create", "params": question}}
            body = {"resultType": "input_required", "inputRequests": asks, "requestState": state}
            self.answer(call, body, modern=True)


def said(answer: Message) -> str:
    result = answer.get("result", {})
    return json.dumps(result.get("content", answer.get("error")), separators=(",", ":"), sort_keys=True)


if __name__ == "__main__":
    Server(sys.argv[1], set(sys.argv[2:])).run()
