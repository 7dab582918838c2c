"""The sessions of the replay comparison: each is played once against the live server and once against its recording.

Owns what is said, what may differ between the two (tokens, interleaving), and when a replay is right.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from loadtest.peers.replay_client import Client, Message


class Verdict(NamedTuple):
    """How one tool did at one session."""

    right: bool
    said: str


Play = Callable[[Client, int], Awaitable[Any]]
"""Plays a session in its first (0) or second (1) run, and returns what is to be the same."""


def text(answer: Message) -> str:
    """The text of an answer, or what came instead of it."""
    if not answer:
        return "(gone)"
    if "nothing" in answer:
        return "(no answer)"
    if "error" in answer:
        return f"error {answer['error'].get('code')}"
    try:
        return str(answer["result"]["content"][0]["text"])
    except (KeyError, IndexError, TypeError):
        return f"something else: {str(answer)[:60]}"


async def sequence(client: Client, run: int) -> list[str]:
    """The same question three times, with three answers."""
    return [text(await client.call(number, "count", {"key": "a"})) for number in (1, 2, 3)]


async def concurrent(client: Client, run: int) -> dict[str, list[str]]:
    """Eight tasks with calls of their own and shared ones, in flight at the same time, in another order each run.

    A task's next call depends on its last answer. Without names for the tasks, only what caused what can tell them
    apart; so a tool may take its time.
    """
    order = random.Random(run)
    tasks = {f"t{number}": list[str]() for number in range(8)}
    pending: dict[int, str] = {}
    ids = iter(range(1, 1000))

    async def step(task: str) -> None:
        said = tasks[task]
        last = said[-1] if said else "start"
        id_ = next(ids)
        pending[id_] = task
        shared = {"key": "shared"}
        await client.start(id_, "count", shared if len(said) == 1 else {"key": f"{task} {last}"})

    names = list(tasks)
    order.shuffle(names)
    for name in names:
        await step(name)
    while pending:
        ids_before = set(pending)
        answer = await client.answer_to_any(ids_before)
        id_ = answer.get("id")
        if id_ not in pending:
            break
        task = pending.pop(id_)
        tasks[task].append(text(answer))
        if len(tasks[task]) < 4:
            await step(task)
    return tasks


async def sampling(client: Client, run: int) -> tuple[str, int]:
    """The server asks the client in the middle of a call."""
    return text(await client.call(1, "ask", {})), client.asked


async def progress(client: Client, run: int) -> list[Any]:
    """Progress under a token that is another one in each run, before the result."""
    token = f"token-{run}-{random.Random(run).randrange(10**9)}"
    answer = await client.call(1, "steps", {}, {"progressToken": token})
    heard = [one for one in client.heard if one.get("method") == "notifications/progress"]
    mine = [one["params"]["progress"] for one in heard if one["params"].get("progressToken") == token]
    return [mine, text(answer)]


async def used_again(client: Client, run: int) -> list[str]:
    """An id that is used again once it is free, as restarted clients do."""
    return [text(await client.call(1, "count", {"key": key})) for key in ("a", "b", "c")]


async def tokens(client: Client, run: int) -> list[Any]:
    """Counts and cursors whose names only look secret."""
    answer = await client.call(1, "limits", {"maxTokens": 256})
    return [text(answer), answer.get("result", {}).get("structuredContent")]


async def notifications(client: Client, run: int) -> list[str]:
    """Two log lines before the result."""
    answer = await client.call(1, "logs", {})
    heard = [
        "log" if one.get("method") == "notifications/message" else "result"
        for one in client.heard
        if one.get("method") == "notifications/message" or one.get("id") == 1
    ]
    return [*heard, text(answer)]


async def death(client: Client, run: int) -> list[str]:
    """A server that dies in the middle of a call: the client is not left waiting."""
    first = text(await client.call(1, "count", {"key": "a"}))
    second = await client.call(2, "die", {})
    return [first, "(no answer)" if "nothing" in second else "told"]


CONCURRENT = "eight concurrent tasks, another order"
BROKEN = ("(gone)", "(no answer)", "error", "something else")
SESSIONS: dict[str, Play] = {
    "the same call, three answers": sequence,
    CONCURRENT: concurrent,
    "a question of the server (sampling)": sampling,
    "progress under a fresh token": progress,
    "an id used again": used_again,
    "maxTokens and nextPageToken": tokens,
    "notifications before the result": notifications,
    "a server that dies": death,
}


def verdict(name: str, truth: Any, recorded: Any, replayed: Any) -> Verdict:
    """Judge a replay: of what was really recorded, and that is what the server says without anybody between.

    Of concurrent tasks the server's answers hang on the order, so they need only be answers.
    """
    if name == CONCURRENT:
        if "=" not in str(recorded) or any(word in str(recorded) for word in BROKEN):
            return Verdict(right=False, said=f"recorded: {short(recorded)}")
    elif recorded != truth:
        return Verdict(right=False, said=f"recorded: {short(recorded)}")
    if recorded == replayed:
        return Verdict(right=True, said="the same")
    return Verdict(right=False, said=short(replayed))


def short(value: Any) -> str:
    """What came instead, in a few words."""
    return str(value)[:70]
