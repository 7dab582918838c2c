"""Sessions as lists of steps: made at random, and done by our tree or by Pi's own session manager.

Owns no test. A step names an earlier entry by its place in the list of all that were appended.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, cast

from hypothesis import strategies as st

from gateway.sessions import drafts, fork
from gateway.sessions.entries import Entry, header_of
from gateway.sessions.ids import Ids
from gateway.sessions.tree import Tree, TreeError

BEGAN = 1_764_000_000_000
"""When sessions of tests begin, in milliseconds since 1970."""

words = st.text(max_size=12) | st.text("\x1c\x1f\x85\ufeff\u00a0\v ab\r\n", max_size=4)
scalars = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | words
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
blocks = st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": words}), max_size=2)
content = words | blocks
times = st.integers(0, 2**40)
tools = st.lists(st.fixed_dictionaries({"name": st.sampled_from(["x", "y", "z"])}), max_size=2)
sections = st.dictionaries(st.sampled_from(["a", "b"]), st.none() | words, max_size=2)
Fields: TypeAlias = "st.SearchStrategy[dict[str, Any]]"
# The cast is for a type that the library gives as partly unknown.
_fields = cast("Callable[..., Fields]", st.fixed_dictionaries)
messages: Fields = st.one_of(
    _fields({"role": st.just("user"), "content": content, "timestamp": times}),
    _fields(
        {"role": st.just("assistant"), "content": blocks, "provider": words, "model": words, "timestamp": times}
    ),
    _fields(
        {"role": st.just("toolResult"), "toolCallId": words, "toolName": words, "content": blocks,
         "isError": st.booleans(), "timestamp": times}
    ),
    _fields(
        {"role": st.just("system"), "content": content, "timestamp": times},
        optional={
            "sections": sections, "toolsAdded": tools, "toolsRemoved": tools,
        },
    ),
    _fields({"role": st.just("bashExecution"), "command": words, "timestamp": times}),
)  # fmt: skip
kinds = st.text(min_size=1, max_size=6).filter(lambda kind: bool(kind.strip()))
places = st.integers(0, 40)


def _step(op: str, **members: st.SearchStrategy[Any]) -> Fields:
    return _fields({"op": st.just(op), **members})


step = st.one_of(
    _step("message", message=messages),
    _step("message", message=messages),
    _step("custom", kind=kinds, data=values),
    _step("custom_message", kind=kinds, content=content, display=st.booleans(), details=values),
    _step("label", target=places, label=st.none() | words),
    _step("name", name=words),
    _step("model", provider=kinds, model=kinds),
    _step("thinking", level=st.sampled_from(["off", "low", "high"])),
    _step("usage", kind=kinds, provider=words, model=words, usage=st.just({"input": 1})),
    _step(
        "compaction",
        summary=words,
        first=st.none() | places,
        tokens=st.integers(0, 10**6),
        hook=st.booleans(),
    ),
    _step("summary", onto=st.none() | places, summary=words, hook=st.booleans()),
    _step("edit", target=places, content=st.none() | content),
    _step("move", to=st.none() | places),
)
lists_of_steps = st.lists(step, max_size=14)


def begin(session: str = "session-1", cwd: str = "/work") -> Tree:
    """A session without entries."""
    return Tree(header_of(session, BEGAN, cwd), ids=Ids("seed"))


def settle(steps: list[dict[str, Any]]) -> tuple[Tree, list[str], list[dict[str, Any]]]:
    """Do steps in our tree: give the tree, the ids in order, and the steps with their places made exact.

    A step that cannot be done is left out, but for those that Pi refuses as well: they stay, and append nothing.
    """
    tree, ids, exact = begin(), list[str](), list[dict[str, Any]]()
    for number, one in enumerate(steps):
        told: dict[str, Any] = dict(one)
        for name in ("target", "first", "onto", "to"):
            if isinstance(place := told.get(name), int):
                told[name] = place % len(ids) if ids else None
        if told["op"] in ("label", "edit") and told["target"] is None:
            continue
        try:
            made = do(tree, ids, told, BEGAN + number)
        except TreeError:
            if told["op"] == "edit":
                exact.append(told)
            continue
        exact.append(told)
        if made is not None:
            ids.append(made)
    return tree, ids, exact


def do(tree: Tree, ids: list[str], one: dict[str, Any], at: int) -> str | None:
    """Do one step; give the id of what was appended."""

    def id_of(place: int | None) -> str | None:
        return None if place is None else ids[place]

    def target() -> str:
        place: int = one["target"]
        return ids[place]

    make: dict[str, Callable[[], Entry]] = {
        "message": lambda: drafts.message(tree, at, one["message"]),
        "custom": lambda: drafts.custom(tree, at, one["kind"], one["data"]),
        "custom_message": lambda: drafts.custom_message(
            tree, at, one["kind"], one["content"], display=one["display"], details=one["details"]
        ),
        "label": lambda: drafts.label(tree, at, target(), one["label"]),
        "name": lambda: drafts.name(tree, at, one["name"]),
        "model": lambda: drafts.model(tree, at, one["provider"], one["model"]),
        "thinking": lambda: drafts.thinking(tree, at, one["level"]),
        "usage": lambda: drafts.usage(tree, at, one["kind"], one["provider"], one["model"], one["usage"]),
        "compaction": lambda: drafts.compaction(
            tree, at, one["summary"], id_of(one["first"]), one["tokens"], from_hook=one["hook"]
        ),
        "summary": lambda: drafts.branch_summary(
            tree, at, id_of(one["onto"]), one["summary"], from_hook=one["hook"]
        ),
        "edit": lambda: drafts.context_edit(tree, at, target(), one["content"]),
    }
    if one["op"] == "move":
        tree.move(id_of(one["to"]))
        return None
    entry = make[one["op"]]()
    tree.add(entry)
    return entry.id


def forked(tree: Tree, at: str) -> Tree:
    """The session that has the way to an entry alone."""
    return fork.branched(tree, at, id_="forked", at_ms=BEGAN, parent="/there.jsonl", ids=Ids("other"))


def bytes_of(tree: Tree) -> bytes:
    """A session as its file holds it."""
    return b"".join(line + b"\n" for line in (tree.header.line, *(entry.line for entry in tree.entries)))


def nameless(value: Any, ids: list[str], *, times: bool = False) -> Any:
    """A value with ids as places, and without times unless they are to count: what two makers of a session share."""
    if isinstance(value, str):
        return f"#{ids.index(value)}" if value in ids else value
    if isinstance(value, list):
        return [nameless(item, ids, times=times) for item in cast(list[Any], value)]
    if isinstance(value, dict):
        return {
            nameless(name, ids): nameless(item, ids, times=times)
            for name, item in cast(dict[str, Any], value).items()
            if times or name not in ("timestamp", "labelTimestamp")
        }
    return value
