"""Eighteen things that users of MCP gateways complain about, each as a question to a gateway that runs.

Owns what is asked and what is right. How a gateway is started, and how its clients speak, its `Stage` knows.
Behind the gateway is `pain_server.py`, on stdio.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import psutil

Message = dict[str, Any]
SERVER = Path(__file__).parent / "pain_server.py"
TOOLS = 12
MIB = 1024 * 1024
PATIENCE_S = 20.0
"""Nothing is waited for longer; only what goes wrong takes it."""
AT_ONCE_S = 10.0
"""What is told before has not waited for a deadline, however busy the machine is."""

T = TypeVar("T")


class Client(Protocol):
    """One session with a gateway, shaken hands."""

    @property
    def messages(self) -> list[Message]:
        """Everything that has come, in order."""
        ...

    async def ask(
        self, method: str, params: Message, *, id_: int | str | None = None, within: float = PATIENCE_S
    ) -> Message:
        """Send a request and return its answer; `{"http": status}` where there is none, `{}` in time."""
        ...

    async def tell(self, method: str, params: Message) -> None:
        """Send a notification."""
        ...

    async def close(self) -> None:
        """Leave."""
        ...


class Stage(Protocol):
    """A running gateway."""

    log: Path
    """Where the server behind it notes what it gets."""

    async def client(self) -> Client:
        """Open a session."""
        ...

    def pids(self) -> list[int]:
        """The processes of the gateway itself."""
        ...

    async def knock(self, headers: dict[str, str]) -> int | None:
        """Send a first request with these headers; the HTTP status, or None where there is no HTTP."""
        ...

    async def end(self) -> bool:
        """Send SIGTERM; whether it has ended in the time that this stage gives it."""
        ...


@dataclass(frozen=True)
class Verdict:
    """What a gateway made of it."""

    right: bool
    said: str


def good(said: str) -> Verdict:
    """As it should be."""
    return Verdict(right=True, said=said)


def poor(said: str) -> Verdict:
    """As it should not be."""
    return Verdict(right=False, said=said)


Symptom = Callable[[Stage, Client], Awaitable[Verdict]]


def text_of(answer: Message) -> str:
    """The text of a tool's result; what came instead, in angle brackets, where there is none."""
    if "error" in answer:
        return f"<{answer['error'].get('message', '')[:60]}>"
    try:
        text = answer["result"]["content"][0]["text"]
    except (KeyError, IndexError, TypeError):
        return f"<HTTP {answer['http']}>" if "http" in answer else "<nothing>"
    return f"<isError {text}>" if answer["result"].get("isError") else text


async def tool(client: Client, name: str, within: float = PATIENCE_S, **arguments: Any) -> Message:
    return await client.ask("tools/call", {"name": name, "arguments": arguments}, within=within)


async def until(condition: Callable[[], T]) -> T:
    """What `condition` returns, as soon as that is true or patience is at its end."""
    deadline = time.monotonic() + PATIENCE_S
    while not (value := condition()) and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    return value


async def listed(client: Client) -> tuple[list[Message], int]:
    tools: list[Message] = []
    params: Message = {}
    for pages in range(1, 20):
        result: Message = (await client.ask("tools/list", params)).get("result", {})
        tools += result.get("tools", [])
        if not result.get("nextCursor"):
            return tools, pages
        params = {"cursor": result["nextCursor"]}
    return tools, 20


async def pages(stage: Stage, client: Client) -> Verdict:
    tools, count = await listed(client)
    names = {one["name"] for one in tools}
    return Verdict(len(names) == len(tools) == TOOLS, f"{len(names)} of {TOOLS} tools in {count} page(s)")


async def unknown_fields(stage: Stage, client: Client) -> Verdict:
    tools, _ = await listed(client)
    of_tool = bool(tools) and all("x-unknown" in one for one in tools)
    result: Message = (await tool(client, "fields")).get("result", {})
    of_result = result.get("x-unknown") == {"deep": [1, {"y": None}]}
    return Verdict(of_tool and of_result, f"{yes(of_tool)} / {yes(of_result)}")


async def meta(stage: Stage, client: Client) -> Verdict:
    tools, _ = await listed(client)
    of_tool = bool(tools) and all(one.get("_meta", {}).get("example/tool") == one["name"] for one in tools)
    params: Message = {"name": "fields", "arguments": {}, "_meta": {"example/call": "mine"}}
    result: Message = (await client.ask("tools/call", params)).get("result", {})
    of_result = result.get("_meta", {}).get("example/result") == "mine"
    return Verdict(of_tool and of_result, f"{yes(of_tool)} / {yes(of_result)}")


async def stderr_flood(stage: Stage, client: Client) -> Verdict:
    said = text_of(await tool(client, "flood"))
    return Verdict(said == "flooded", "ok" if said == "flooded" else said)


async def large_result(stage: Stage, client: Client) -> Verdict:
    began = time.monotonic()
    said = text_of(await tool(client, "big", size=8 * MIB))
    right = said == "b" * (8 * MIB)
    return Verdict(right, f"{time.monotonic() - began:.2f} s" if right else said[:60])


async def large_request(stage: Stage, client: Client) -> Verdict:
    answer = await tool(client, "echo", text="r" * (6 * MIB), count=True)
    right = text_of(answer) == str(6 * MIB)
    return Verdict(right, "ok" if right else str(answer.get("http") or text_of(answer))[:60])


async def progress(stage: Stage, client: Client) -> Verdict:
    seen = len(client.messages)
    params: Message = {"name": "progress", "arguments": {}, "_meta": {"progressToken": "my-token"}}
    said = text_of(await client.ask("tools/call", params))
    await asyncio.sleep(0.3)
    notes = [one for one in client.messages[seen:] if one.get("method") == "notifications/progress"]
    answers = [n for n, one in enumerate(client.messages[seen:]) if "result" in one]
    early = [one for one in client.messages[seen:][: answers[0] if answers else 0] if one in notes]
    right = (
        said == "progressed"
        and [note["params"].get("progress") for note in early] == [1, 2, 3]
        and {note["params"].get("progressToken") for note in notes} == {"my-token"}
    )
    return Verdict(right, f"{len(early)} of 3 before the result" if notes else "none")


async def elicitation(stage: Stage, client: Client) -> Verdict:
    said = text_of(await tool(client, "ask"))
    return Verdict(
        '"accept"' in said, "y" if '"accept"' in said else said if said != "<nothing>" else "hangs"
    )


async def list_changed(stage: Stage, client: Client) -> Verdict:
    seen = len(client.messages)
    await tool(client, "change")
    told = await until(
        lambda: any(one.get("method") == "notifications/tools/list_changed" for one in client.messages[seen:])
    )
    return good("y") if told else poor("never")


def heard(stage: Stage) -> list[Message]:
    """What the server has got."""
    if not stage.log.exists():
        return []
    found: list[Message] = []
    for line in stage.log.read_text(errors="replace").splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def calls_of(stage: Stage, name: str) -> list[Message]:
    """The calls of a tool that the server has got."""
    return [
        one for one in heard(stage) if one.get("method") == "tools/call" and one["params"].get("name") == name
    ]


async def cancellation(stage: Stage, client: Client) -> Verdict:
    params: Message = {"name": "wait", "arguments": {}}
    task = asyncio.create_task(client.ask("tools/call", params, id_="to-cancel", within=3 * PATIENCE_S))
    asked = await until(lambda: calls_of(stage, "wait"))
    await client.tell("notifications/cancelled", {"requestId": "to-cancel", "reason": "test"})
    cancelled = await until(
        lambda: [one for one in heard(stage) if one.get("method") == "notifications/cancelled"]
    )
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    if not asked or not cancelled:
        return poor("no")
    right = cancelled[-1]["params"].get("requestId") == asked[-1]["id"]
    return Verdict(right, "y" if right else "with another id")


async def hold(client: Client, text: str, id_: int | str) -> Message:
    """Ask for an answer that the server keeps until `release` is called."""
    params: Message = {"name": "hold", "arguments": {"text": text}}
    return await client.ask("tools/call", params, id_=id_, within=2 * PATIENCE_S)


async def same_id(stage: Stage, client: Client) -> Verdict:
    other = await stage.client()
    before = len(calls_of(stage, "hold"))
    try:
        calls = [asyncio.create_task(hold(one, text, 7)) for one, text in ((client, "of A"), (other, "of B"))]
        await until(lambda: len(calls_of(stage, "hold")) >= before + 2)
        await tool(client, "release")
        await tool(other, "release")
        said = [text_of(await call) for call in calls]
    finally:
        await other.close()
    return Verdict(
        said == ["of A", "of B"], "ok" if said == ["of A", "of B"] else f"A: {said[0]}, B: {said[1]}"
    )


async def typed_ids(stage: Stage, client: Client) -> Verdict:
    ids: tuple[int | str, int | str] = (9, "9")
    before = len(calls_of(stage, "hold"))
    calls = [asyncio.create_task(hold(client, repr(id_), id_)) for id_ in ids]
    await until(lambda: len(calls_of(stage, "hold")) >= before + 2)
    await tool(client, "release")
    said = [text_of(await call) for call in calls]
    return Verdict(said == ["9", "'9'"], "ok" if said == ["9", "'9'"] else ", ".join(said))


async def death(stage: Stage, client: Client) -> Verdict:
    # How long a server takes to start is another question.
    await tool(client, "echo", text="up")
    began = time.monotonic()
    answer = await tool(client, "die")
    took = time.monotonic() - began
    result: Message = answer.get("result") or {}
    error = "error" in answer or "http" in answer or bool(result.get("isError"))
    return Verdict(error and took < AT_ONCE_S, f"{took:.2f} s" if error else f"nothing in {took:.0f} s")


async def same_session_after(stage: Stage, client: Client) -> Verdict:
    await tool(client, "die")
    said = ""
    for _ in range(20):
        answer = await tool(client, "echo", text="again")
        said = text_of(answer)
        if said == "again":
            return good("ok")
        if answer.get("http") == 404:
            return good("404: a new session is asked for")
        await asyncio.sleep(0.2)
    return poor(said[:60])


async def new_session_after(stage: Stage, client: Client) -> Verdict:
    await tool(client, "die")
    said = ""
    for _ in range(10):
        try:
            other = await stage.client()
        except Exception as fault:  # noqa: BLE001 - whatever a gateway does here is its verdict
            said = type(fault).__name__
            await asyncio.sleep(0.2)
            continue
        said = text_of(await tool(other, "echo", text="anew"))
        await other.close()
        if said == "anew":
            return good("ok")
        await asyncio.sleep(0.2)
    return poor(said[:60])


def servers() -> list[tuple[psutil.Process, list[str]]]:
    """The servers that run, with their command lines: a shell or a keeper around one is another process."""
    found: list[tuple[psutil.Process, list[str]]] = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            if "python" in Path(words[0]).name and str(SERVER) in words and "-c" not in words:
                found.append((process, words))
        except (psutil.Error, IndexError):
            continue
    return found


async def children(stage: Stage, client: Client) -> Verdict:
    others = [await stage.client() for _ in range(2)]
    for one in (client, *others):
        await tool(one, "echo", text="up")
    count = len(ours(stage))
    for one in others:
        await one.close()
    return Verdict(count <= 3, f"{count} servers for 3 sessions")


def ours(stage: Stage) -> list[psutil.Process]:
    """The servers that belong to this stage, by the log that they were told to write."""
    return [process for process, words in servers() if str(stage.log) in words]


async def leftovers(stage: Stage, client: Client) -> Verdict:
    await tool(client, "echo", text="up")
    gone = await stage.end()
    await until(lambda: not ours(stage))
    left = ours(stage)
    return Verdict(gone and not left, f"{yes(gone)} / {len(left) or 'none'}")


async def foreign_pages(stage: Stage, client: Client) -> Verdict:
    origin = await stage.knock({"origin": "http://evil.example"})
    host = await stage.knock({"host": "evil.example"})
    if origin is None or host is None:
        return good("no port is open")
    right = all(400 <= status < 500 for status in (origin, host))
    return Verdict(right, f"{yes(400 <= origin < 500)} / {yes(400 <= host < 500)}")


def yes(fact: bool) -> str:  # noqa: FBT001 - a word for a fact
    return "y" if fact else "n"


SYMPTOMS: dict[str, Symptom] = {
    "3 pages of tools": pages,
    "unknown fields kept (tool / result)": unknown_fields,
    "`_meta` kept (tool / result)": meta,
    "1 MiB of stderr before the answer": stderr_flood,
    "8 MiB result": large_result,
    "6 MiB request": large_request,
    "progress before the result, with the client's token": progress,
    "elicitation in the middle of a call": elicitation,
    "`list_changed` reaches the client": list_changed,
    "cancellation reaches the server, with its id": cancellation,
    "two clients, both with id 7": same_id,
    'ids 9 and "9" in flight together': typed_ids,
    "server dies in a call: error after": death,
    "next call, same session": same_session_after,
    "next call, new session": new_session_after,
    "servers for three sessions": children,
    "SIGTERM: gone after 5 s / left over": leftovers,
    "foreign Origin / Host refused": foreign_pages,
}
"""Every symptom gets a gateway of its own."""
