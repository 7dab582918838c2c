"""The server of the replay comparison: stateful, two-way, and the same in every run. Speaks MCP 2025-11-25 on stdio.

Runs as a program of its own, on the standard library alone, so that every recorder can start it.
"""

import json
import sys
from typing import Any

counts: dict[str, int] = {}
waiting: dict[str, Any] = {}
"""Our own questions, and the calls that wait for their answers."""


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def text(id_: object, value: str, **more: object) -> None:
    say({"id": id_, "result": {"content": [{"type": "text", "text": value}], **more}})


def tools_call(id_: object, params: dict[str, Any]) -> None:
    name, arguments = params["name"], params.get("arguments", {})
    meta = params.get("_meta", {})
    if name == "count":
        key = arguments["key"]
        counts[key] = counts.get(key, 0) + 1
        text(id_, f"{key}={counts[key]}")
    elif name == "ask":
        question = f"s{len(waiting) + 1}"
        waiting[question] = id_
        content = {"type": "text", "text": "who are you?"}
        ask = {"messages": [{"role": "user", "content": content}], "maxTokens": 16}
        say({"id": question, "method": "sampling/createMessage", "params": ask})
    elif name == "steps":
        token = meta.get("progressToken")
        for step in (1, 2, 3):
            if token is not None:
                progress = {"progressToken": token, "progress": step, "total": 3}
                say({"method": "notifications/progress", "params": progress})
        text(id_, "done")
    elif name == "logs":
        for number in (1, 2):
            log = {"level": "info", "data": f"line {number}"}
            say({"method": "notifications/message", "params": log})
        text(id_, "logged")
    elif name == "limits":
        text(
            id_, "limits", structuredContent={"maxTokens": arguments.get("maxTokens"), "nextPageToken": "p2"}
        )
    elif name == "die":
        sys.exit(3)


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        id_, method = message.get("id"), message.get("method")
        if method is None:
            if id_ in waiting:
                answer = message.get("result", {}).get("content", {}).get("text", "refused")
                text(waiting[id_], f"you are {answer}")
        elif method == "initialize":
            result: dict[str, Any] = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}, "logging": {}},
                "serverInfo": {"name": "replayed", "version": "1"},
            }
            say({"id": id_, "result": result})
        elif method == "tools/list":
            names = ("count", "ask", "steps", "logs", "limits", "die")
            say(
                {
                    "id": id_,
                    "result": {"tools": [{"name": n, "inputSchema": {"type": "object"}} for n in names]},
                }
            )
        elif method == "tools/call":
            tools_call(id_, message["params"])
        elif id_ is not None:
            say({"id": id_, "result": {}})


if __name__ == "__main__":
    main()
