"""A server of 2025-11-25 on stdio, by hand, with what the SDK's servers do not have: tasks, questions that are answered
in a browser, and questions to a model that may use tools."""

from __future__ import annotations

import json
import sys
from typing import Any

Message = dict[str, Any]

CAPABILITIES: Message = {
    "tools": {},
    "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}},
}
TOOLS: list[Message] = [
    {"name": "job", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}},
    {"name": "open_page", "inputSchema": {"type": "object"}},
    {"name": "think", "inputSchema": {"type": "object"}},
]
WEATHER: Message = {"name": "weather", "description": "Says the weather.", "inputSchema": {"type": "object"}}
PAGE = "https://example.com/log-in?e=1"


def say(message: Message) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(said: str) -> Message:
    return {"content": [{"type": "text", "text": said}]}


class Server:
    """Serves one client, one message after the other."""

    def __init__(self) -> None:
        self.tasks: dict[str, Message] = {}
        self.asked: dict[str, tuple[Any, str]] = {}
        """Question -> the call that it is for, and the tool."""

    def answer(self, id_: Any, method: str, params: Message) -> Message | None:
        """Return the result of a request; None where it comes later."""
        match method:
            case "initialize":
                about = {"name": "tasks", "version": "1"}
                return {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "serverInfo": about}
            case "tools/list":
                return {"tools": TOOLS}
            case "tools/call":
                return self.call(id_, params)
            case "tasks/list":
                return {"tasks": list(self.tasks.values())}
            case "tasks/get":
                return self.tasks[params["taskId"]]
            case "tasks/result":
                meta = {"io.modelcontextprotocol/related-task": {"taskId": params["taskId"]}}
                return {**text(f"done: {params['taskId']}"), "_meta": meta}
            case "tasks/cancel":
                self.tasks[params["taskId"]]["status"] = "cancelled"
                return self.tasks[params["taskId"]]
            case _:
                return {}

    def call(self, id_: Any, params: Message) -> Message | None:
        name = params["name"]
        if name == "job":
            task_id = f"task-{len(self.tasks) + 1}"
            stamp = "2026-01-01T00:00:00Z"
            task = {
                "taskId": task_id,
                "status": "working",
                "createdAt": stamp,
                "lastUpdatedAt": stamp,
                "ttl": None,
            }
            self.tasks[task_id] = task
            return {"task": dict(task)}
        question = f"q{id_}"
        self.asked[question] = (id_, name)
        if name == "open_page":
            ask = {"mode": "url", "message": "Log in", "url": PAGE, "elicitationId": "e1"}
            say({"id": question, "method": "elicitation/create", "params": ask})
        else:
            words = [{"role": "user", "content": {"type": "text", "text": "Is it raining?"}}]
            ask = {"messages": words, "maxTokens": 9, "tools": [WEATHER], "toolChoice": {"mode": "required"}}
            say({"id": question, "method": "sampling/createMessage", "params": ask})
        return None

    def answered(self, message: Message) -> None:
        """The client has answered a question: so is the call."""
        call, name = self.asked.pop(message["id"])
        if "error" in message:
            said = f"refused: {message['error']['message']}"
        elif name == "open_page":
            said = message["result"]["action"]
            say({"method": "notifications/elicitation/complete", "params": {"elicitationId": "e1"}})
        else:
            said = json.dumps(message["result"]["content"], sort_keys=True)
        say({"id": call, "result": text(said)})


def main() -> None:
    server = Server()
    for line in sys.stdin:
        message = json.loads(line)
        if "method" not in message:
            server.answered(message)
        elif "id" in message:
            result = server.answer(message["id"], message["method"], message.get("params") or {})
            if result is not None:
                say({"id": message["id"], "result": result})


if __name__ == "__main__":
    main()
