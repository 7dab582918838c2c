"""An agent core that speaks the Pi protocol, with a script in the place of a model.

It starts a gateway, which offers it the tools, commands and hooks of all extensions as those of one, and goes through
what a core does with each prompt: hooks may change the input, put messages before the model, block or change a call of
a tool, and change its result. What happens is printed, a line each.

    python docs/examples/pi_core.py -- tieline run tieline.toml --stdio

`tieline.toml` needs `[listen]` with `stdio_dialect = "pi"`. Nothing but the standard library is used.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

Message = dict[str, Any]

SCRIPT: list[Message] = [
    {"prompt": "/todo water the plants"},
    {
        "prompt": "Tidy up, please",
        "calls": [
            {"name": "bash", "input": {"command": "rm -rf build"}},
            {"name": "bash", "input": {"command": "ls"}},
            {"name": "todo_add", "input": {"what": "sweep the floor"}},
            {"name": "count", "input": {"path": "."}},
        ],
    },
]
"""What the user says, and which tools the model wants then."""


class PiCore:
    """One session with a gateway that speaks Pi on its stdin and stdout."""

    def __init__(self, command: Sequence[str], tell: Callable[[str], None] = print) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe)
        self.offer: Message = {}
        """What the gateway registered last, for all extensions."""
        self._tell = tell
        self._last = 0

    # Lines.

    def say(self, type_: str, payload: Message, id_: str = "") -> str:
        """Write one message; return its id."""
        if not id_:
            self._last += 1
            id_ = f"m{self._last}"
        line = json.dumps({"id": id_, "version": "1.0", "type": type_, "payload": payload})
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        return id_

    def hear(self) -> Message:
        """Read one message. What asks this core for something is answered here."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("the gateway has gone; what it says on stderr tells why")
        message: Message = json.loads(line)
        if message["type"] == "register":
            self.offer = message["payload"]
        elif message["type"] == "host_call":
            self._host_call(message["id"], message["payload"])
        return message

    def answer(self, id_: str) -> Message:
        """Wait for the answer to a message of ours."""
        while (message := self.hear())["id"] != id_:
            pass
        payload: Message = message["payload"]
        return payload

    def _host_call(self, id_: str, call: Message) -> None:
        """An extension wants something of the user. Here nobody sits, so all questions are declined."""
        kind = call["params"].get("kind", "")
        self._tell(f"ui {kind}: {call['params'].get('title', '')}")
        output = {} if kind == "notify" else {"cancelled": True}
        self.say("host_result", {"call_id": call["call_id"], "output": output, "is_error": False}, id_)

    # Events.

    def event(self, event: str, **data: Any) -> Message:
        """Ask the hooks for one event, if there are any; return what they decided, which may be nothing."""
        if event not in self.offer.get("event_hooks", []):
            return {}
        answer = self.answer(self.say("event_hook", {"event": event, "data": data}))
        return answer.get("data", {}).get("result", {})

    def told(self, event: str, **data: Any) -> None:
        """Tell of an event that takes no answer."""
        self.say("event_hook", {"event": event, "data": {**data, "reply": False}})

    # A session.

    def start(self) -> None:
        """Wait for the registration, and begin."""
        while not self.offer:
            self.hear()
        self.told("session_start", reason="startup")
        for kind in ("tools", "slash_commands", "event_hooks", "shortcuts", "flags"):
            names = [
                one if isinstance(one, str) else one.get("name", one.get("key"))
                for one in self.offer.get(kind, [])
            ]
            self._tell(f"offered {kind}: {', '.join(sorted(map(str, names)))}")

    def prompt(self, text: str, calls: Sequence[Message] = ()) -> None:
        """Do what one prompt leads to: a command, or a turn in which the model makes these calls."""
        if text.startswith("/"):
            name, *args = text[1:].split()
            result = self.answer(self.say("slash_command", {"name": name, "args": args}))
            self._tell(f"/{name}: {_text(result['output'])}")
            return
        decided = self.event("input", text=text, source="interactive")
        if decided.get("action") == "handled":
            return
        text = decided.get("text", text)
        self._tell(f"user: {text}")
        before = self.event("before_agent_start", prompt=text, systemPrompt="You are helpful.")
        one = [before["message"]] if "message" in before else []
        for message in [*one, *before.get("messages", [])]:
            self._tell(f"injected {message['customType']}: {message['content']}")
        self.told("agent_start")
        for number, call in enumerate(calls):
            self._call(f"{self._last}-{number}", call["name"], call["input"])
        self.told("agent_end", messages=[])

    def _call(self, call_id: str, name: str, given: Message) -> None:
        about = {"toolName": name, "toolCallId": call_id}
        decided = self.event("tool_call", **about, input=given)
        if decided.get("block"):
            self._tell(f"{name} blocked: {decided.get('reason', '')}")
            return
        given = decided.get("input", given)
        self._tell(f"{name} called: {json.dumps(given)}")
        if name in [tool["name"] for tool in self.offer.get("tools", [])]:
            call = {"call_id": call_id, "name": name, "input": given}
            result = self.answer(self.say("tool_call", call))
            content, is_error = result["output"].get("content", []), result["is_error"]
        else:
            # A tool of the core's own. A real one would run the command now.
            content, is_error = [{"type": "text", "text": "README.md\nsrc\n"}], False
        patched = self.event("tool_result", **about, input=given, content=content, isError=is_error)
        content = patched.get("content", content)
        self._tell(f"{name} gave: {_text({'content': content})!r}{' (an error)' if is_error else ''}")

    def end(self) -> int:
        """End the session and the gateway; return its exit code."""
        self.told("session_shutdown", reason="quit")
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait()


def _text(output: Message) -> str:
    return " ".join(block.get("text", "") for block in output.get("content", [])).strip()


def main(arguments: Sequence[str]) -> int:
    """Play the script before the gateway that a command starts."""
    if not arguments[1:] or arguments[0] != "--":
        sys.stderr.write("usage: python pi_core.py -- tieline run tieline.toml --stdio\n")
        return 2
    try:
        core = PiCore(arguments[1:])
    except OSError as error:
        sys.stderr.write(f"{arguments[1]} cannot be started: {error.strerror}\n")
        return 1
    core.start()
    for step in SCRIPT:
        core.prompt(step["prompt"], step.get("calls", ()))
    return core.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
