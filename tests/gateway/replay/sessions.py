"""Generated sessions: what hypothesis draws, and how it is acted out in a `Scene`.

A plan is eras, numbers and a list of steps; each step names what happens and takes its objects by number from what
there is at that moment, so that any part of a plan is a plan too, and failures shrink.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import msgspec
from hypothesis import strategies as st

from gateway.config.extensions import ExtensionsConfig
from gateway.config.model import CatalogConfig, Config
from gateway.config.peer import PeerConfig
from gateway.protocol import mcp
from tests.gateway.replay.scene import ASKABLE, LEGACY, MODERN, Asked, Message, Scene, Service, Wire
from transports.base import Id, TransportError

Step: TypeAlias = tuple[str, int, int]
LANE = mcp.META_LANE
_LONG = b'"params":{"text":"' + b"x" * 40_000
LONG_JUNK = (
    b'{"jsonrpc":"2.0","id":7,"method":"ping",%b"},"jsonrpc":"2.0"}' % _LONG,
    b'{"jsonrpc":"2.0","method":"ping",%b"},"jsonrpc":"2.0","id":7}' % _LONG,
    b'{"jsonrpc":"2.0","id":7,"method":"ping",%b' % _LONG,
    b'{"jsonrpc":"2.0","id":7,"method":"ping",%b\xff"}}' % _LONG,
    b'{"jsonrpc":"2.0","id":7,"method":"ping",%b","deep":%b}}' % (_LONG, b"[" * 2000 + b"]" * 2000),
    b'{"jsonrpc":"2.0","id":7,"method":"ping",%b"}}{"jsonrpc":"2.0","method":"notifications/x"}' % _LONG,
    b'{"jsonrpc":"2.0","id":1.5,"method":"ping",%b"}}' % _LONG,
    b'{"jsonrpc":"2.0","id":7,"method":"ping",%b"},"result":{}}' % _LONG,
    b"[%b]" % (b"x" * 40_000),
    b"x" * 40_000,
)
"""Lines that are no message, most of them by what stands far behind."""
STRAYS = ("too-large", "unfinished", "partial", "binary", "blank")
LEVELS = ("debug", "info", "error")
CHANGES = tuple(mcp.LIST_CHANGED)
POLICY: Message = {"mode": "prompt", "default_caps": ["read", "ui", "tool", "session"], "deny_caps": ["env"]}
"""What extensions may do: some of it unasked, some of it not at all."""


@dataclass(frozen=True)
class Plan:
    """One session before it is played."""

    era: mcp.Era
    http: bool
    peers: tuple[tuple[mcp.Era, bool, bool], ...]
    """Of each: its era, whether it is reached over HTTP, whether it is shared."""
    pages: int
    lanes: int
    """0: the core does not say which of its actors asks."""
    greets: bool
    steps: tuple[Step, ...]
    lag_ms: int = 0
    """How late timers ring."""
    joins: bool = True
    """Whether a list that is on its way serves all who want it, as it did not in earlier recordings."""


CORE_STEPS = (
    "call", "call", "call", "call", "cancel", "reply", "reply", "retry", "retry", "list", "read", "complete",
    "prompt", "level", "subscribe", "unsubscribe", "listen", "ping", "tell", "initialized",
)  # fmt: skip
PEER_STEPS = (
    "answer", "answer", "answer", "answer", "answer", "fail", "ask", "ask", "progress", "log", "changed",
    "updated", "take back", "input",
)  # fmt: skip
CALM = (*CORE_STEPS, *PEER_STEPS)
"""What both sides do that keep to the protocol, and whose peers live."""
STORMS = (
    "core junk", "orphan reply", "twice", "leave", "reconnect", "odd answer", "stray", "stderr", "peer junk", "orphan",
    "again", "dies", "renews", "down", "given up", "silent", "carry", "long", "longer", "damaged",
)  # fmt: skip


def plans(
    kinds: tuple[str, ...], *, most: int, lanes: st.SearchStrategy[int] | None = None, greets: bool = False
) -> st.SearchStrategy[Plan]:
    """Plans of such steps, at most so many. `greets`: the core always says that it is initialized."""
    small = st.integers(0, 7)
    steps = st.lists(st.tuples(st.sampled_from(kinds), small, small), max_size=most)
    eras: st.SearchStrategy[mcp.Era] = st.sampled_from(("legacy", "modern"))
    return st.builds(
        Plan,
        era=eras,
        http=st.booleans(),
        peers=st.lists(st.tuples(eras, st.booleans(), st.booleans()), min_size=1, max_size=3).map(tuple),
        pages=st.integers(1, 2),
        lanes=lanes if lanes is not None else st.integers(0, 3),
        greets=st.just(True) if greets else st.booleans(),
        steps=steps.map(tuple),
        lag_ms=st.sampled_from((0, 0, 7)),
        joins=st.booleans(),
    )


@dataclass
class Open:
    """A request of the core that has no answer yet."""

    core: int
    lane: str
    message: Message


class Acting:
    """A plan that is being played."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        names = [f"p{number}" for number in range(len(plan.peers))]
        services = [
            self.service(name, era, stamped=http)
            for name, (era, http, _) in zip(names, plan.peers, strict=True)
        ]
        peers = {
            name: PeerConfig(
                command=[] if http else [name],
                url="http://127.0.0.1:9/mcp" if http else None,
                scope="shared" if shared else "session",
                call_timeout_s=20,
                dialect=service.dialect,
            )
            for name, service, (_, http, shared) in zip(names, services, plan.peers, strict=True)
        }
        config = Config(peers=peers, catalog=CatalogConfig(), extensions=ExtensionsConfig(policy=POLICY))
        self.scene = Scene(config, services, era=plan.era, http=plan.http)
        self.scene.clock.lag = plan.lag_ms * 1_000_000
        self.scene.exchange.joins_lists = plan.joins
        self.names = names
        self.open: dict[Id, Open] = {}
        self.lane_of: dict[Id, str] = {}
        """Lane of every request that the core has made."""
        self.suspended: list[tuple[Open, Message]] = []
        self.questions: list[tuple[int, Message]] = []
        self.core = -1
        self._ids = 0
        self._asks = 0
        self._read = 0
        self._over = False
        self._last: list[tuple[Wire, Message]] = []
        """Answers that were given, to be given again."""

    def service(self, name: str, era: mcp.Era, *, stamped: bool) -> Service:
        """Return one peer of the plan."""
        return Service(name, era, stamped=stamped, pages=self.plan.pages)

    def play(self) -> Scene:
        """Play the whole plan."""
        plan = self.plan
        if not self.scene.is_ephemeral:
            self.core = self.scene.connect()
            if plan.greets or plan.era == "legacy":
                self._greet()
        for kind, a, b in plan.steps:
            if self._over:
                break
            self.scene.passes(0.001)
            self._step(kind)(a, b)
            self._look()
        if not self._over:
            self._end()
        return self.scene

    def _greet(self) -> None:
        if self.plan.era == "modern":
            self._asks_for("server/discover", {}, 0)
            return
        facts = {
            "protocolVersion": LEGACY,
            "capabilities": ASKABLE,
            "clientInfo": {"name": "core", "version": "1"},
        }
        self._asks_for("initialize", facts, 0)
        if self.plan.greets:
            self.scene.core_says(self.core, _bytes({"method": "notifications/initialized"}))
        self._look()

    def _end(self) -> None:
        scene = self.scene
        for number in range(len(scene.cores)):
            scene.hang_up(number)
        self._over = True

    def _step(self, kind: str) -> Callable[[int, int], None]:
        return getattr(self, "do_" + kind.replace(" ", "_"))

    def _look(self) -> None:
        """The core reads what has come."""
        scene = self.scene
        while self._read < len(scene.words):
            word = scene.words[self._read]
            self._read += 1
            if word.is_sent:
                continue
            message: Message = msgspec.json.decode(word.body)
            if "method" not in message:
                id_: Any = message.get("id")
                asked = self.open.pop(id_, None)
                result: Any = message.get("result")
                if asked is not None and isinstance(result, dict) and "inputRequests" in result:
                    self.suspended.append((asked, cast("Message", result)))
            elif "id" in message:
                self.questions.append((word.core, message))
            elif message["method"] == "notifications/cancelled":
                id_ = message["params"].get("requestId")
                self.questions = [one for one in self.questions if one[1]["id"] != id_]

    # -- the core ----------------------------------------------------------------------------------------------

    def _asks_for(
        self, method: str, params: Message, lane: int, *, token: bool = False, again: str = ""
    ) -> None:
        plan = self.plan
        self._ids += 1
        id_: Id = f"r{self._ids}" if plan.pages == 2 else self._ids
        meta: Message = {}
        name = again or (f"turn{lane % plan.lanes}" if plan.lanes else "")
        if plan.era == "modern":
            meta = {mcp.META_VERSION: MODERN, mcp.META_CAPABILITIES: ASKABLE}
            if lane == 3:
                meta[mcp.META_LOG_LEVEL] = "info"
        if name and method != "initialize":
            meta[LANE] = name
        if token:
            meta["progressToken"] = f"k{self._ids}"
        body = {"id": id_, "method": method, "params": params | ({"_meta": meta} if meta else {})}
        core = self.scene.connect() if self.scene.is_ephemeral else self.core
        if self.scene.is_ephemeral:
            self.scene.owed[core] = id_
        self.open[id_] = Open(core, name, body)
        self.lane_of[id_] = name
        self.scene.core_says(core, _bytes(body))
        self._look()

    def _tool(self, number: int) -> str:
        name = self.names[number % len(self.names)]
        return "t0" if len(self.names) == 1 else f"{name}__t0"

    def do_call(self, a: int, b: int) -> None:
        arguments = {"n": 0} if b < 4 else {"n": self._ids, "at": b}
        self._asks_for("tools/call", {"name": self._tool(b), "arguments": arguments}, a, token=b % 2 == 0)

    def do_prompt(self, a: int, b: int) -> None:
        name = "p0" if len(self.names) == 1 else f"{self.names[b % len(self.names)]}__p0"
        self._asks_for("prompts/get", {"name": name}, a, token=b == 1)

    def do_read(self, a: int, b: int) -> None:
        self._asks_for("resources/read", {"uri": f"mem://{self.names[b % len(self.names)]}/0"}, a)

    def do_complete(self, a: int, b: int) -> None:
        name = "p0" if len(self.names) == 1 else f"{self.names[b % len(self.names)]}__p0"
        params = {"ref": {"type": "ref/prompt", "name": name}, "argument": {"name": "x", "value": "y"}}
        self._asks_for("completion/complete", params, a)

    def do_list(self, a: int, b: int) -> None:
        method = tuple(mcp.LIST_METHODS)[b % 4]
        self._asks_for(method, {"cursor": "1"} if b > 5 else {}, a)

    def do_level(self, a: int, b: int) -> None:
        if self.plan.era == "legacy":
            self._asks_for("logging/setLevel", {"level": LEVELS[b % 3]}, a)

    def do_subscribe(self, a: int, b: int) -> None:
        if self.plan.era == "legacy":
            self._asks_for("resources/subscribe", {"uri": f"mem://{self.names[b % len(self.names)]}/0"}, a)

    def do_unsubscribe(self, a: int, b: int) -> None:
        if self.plan.era == "legacy":
            self._asks_for("resources/unsubscribe", {"uri": f"mem://{self.names[b % len(self.names)]}/0"}, a)

    def do_listen(self, a: int, b: int) -> None:
        if self.plan.era == "modern":
            wanted = {
                "toolsListChanged": True,
                "resourceSubscriptions": [f"mem://{self.names[0]}/0"][: b % 2],
            }
            self._asks_for("subscriptions/listen", {"notifications": wanted}, a)

    def do_ping(self, a: int, b: int) -> None:
        self._asks_for("ping", {}, a)

    def do_initialized(self, a: int, b: int) -> None:
        if self.plan.era == "legacy":
            self.scene.core_says(self.core, _bytes({"method": "notifications/initialized"}))

    def do_tell(self, a: int, b: int) -> None:
        method = "notifications/roots/list_changed" if b else "notifications/progress"
        params: Message = {} if b else {"progressToken": a, "progress": 1}
        if not self.scene.is_ephemeral:
            self.scene.core_says(self.core, _bytes({"method": method, "params": params}))

    def do_cancel(self, a: int, b: int) -> None:
        if not self.open:
            return
        id_ = list(self.open)[a % len(self.open)]
        asked = self.open.pop(id_)
        if self.scene.is_ephemeral:
            self.scene.hang_up(asked.core)
        else:
            params = {"requestId": id_, "reason": "enough"}
            self.scene.core_says(asked.core, _bytes({"method": "notifications/cancelled", "params": params}))

    def do_reply(self, a: int, b: int) -> None:
        if not self.questions:
            return
        core, question = self.questions.pop(a % len(self.questions))
        answer = {"error": {"code": -1, "message": "no"}} if b == 0 else {"result": _reply(question, b)}
        self.scene.core_says(core, _bytes({"id": question["id"], **answer}))

    def do_retry(self, a: int, b: int) -> None:
        if not self.suspended:
            return
        asked, result = self.suspended.pop(a % len(self.suspended))
        answers = {key: _reply(one, b) for key, one in result["inputRequests"].items()}
        if b == 0 and answers:
            answers.pop(next(iter(answers)))
        params = {key: value for key, value in asked.message["params"].items() if key != "_meta"}
        params["inputResponses"] = answers
        if "requestState" in result:
            params["requestState"] = result["requestState"]
        self._asks_for(asked.message["method"], params, 0, again=asked.lane)

    # -- the peers ---------------------------------------------------------------------------------------------

    def _asked(self) -> list[Asked]:
        """What peers that are up have not answered."""
        return [
            one
            for service in self.scene.services.values()
            for one in service.asked
            if one.wire.is_up and one.message["method"] != "subscriptions/listen"
        ]

    def _pick(self, a: int) -> Asked | None:
        asked = self._asked()
        return asked[a % len(asked)] if asked else None

    def _wire(self, a: int) -> Wire | None:
        wires = [wire for service in self.scene.services.values() for wire in service.wires if wire.is_up]
        return wires[a % len(wires)] if wires else None

    def _answer(self, one: Asked, answer: Message) -> None:
        one.wire.service.asked.remove(one)
        message = {"id": one.message["id"], **answer}
        self._last.append((one.wire, message))
        one.wire.says(message)
        self.scene.settle()

    def do_answer(self, a: int, b: int) -> None:
        one = self._pick(a)
        if one is not None:
            self._answer(one, {"result": one.wire.service.answer_of(one.message)})

    def do_fail(self, a: int, b: int) -> None:
        one = self._pick(a)
        if one is not None:
            one.wire.service.count += 1
            self._answer(one, {"error": {"code": -32000 - b, "message": f"no {one.wire.service.count}"}})

    def do_odd_answer(self, a: int, b: int) -> None:
        one = self._pick(a)
        if one is not None:
            self._answer(one, {"result": [None, {}, [], "x", {"resultType": "input_required"}][b % 5]})

    def do_input(self, a: int, b: int) -> None:
        one = self._pick(a)
        if one is None or not one.wire.service.is_modern or one.message["method"] not in mcp.INPUT_REQUIRED:
            return
        one.wire.service.count += 1
        requests = {f"q{n}": _question(n + b) for n in range(1 + b % 2)}
        more = {"requestState": f"{one.wire.service.name}-{one.wire.service.count}"} if b % 3 else {}
        self._answer(one, {"result": {"resultType": "input_required", "inputRequests": requests, **more}})

    def do_ask(self, a: int, b: int) -> None:
        one = self._pick(a)
        wire = one.wire if one is not None else self._wire(a)
        if wire is None or wire.service.is_modern:
            return
        self._asks += 1
        id_ = self._asks if b % 2 else f"q{self._asks}"
        wire.questions.append(id_)
        about = one.message["id"] if one is not None else None
        question = _question(b)
        question["params"]["_meta"] = {"n": self._asks}
        wire.says({"id": id_, **question}, about=about)
        self.scene.settle()

    def do_take_back(self, a: int, b: int) -> None:
        wire = self._wire(a)
        if wire is not None and wire.questions:
            params = {"requestId": wire.questions.pop(b % len(wire.questions)), "reason": "never mind"}
            wire.says({"method": "notifications/cancelled", "params": params})
            self.scene.settle()

    def do_progress(self, a: int, b: int) -> None:
        one = self._pick(a)
        if one is None:
            return
        meta = one.message.get("params", {}).get("_meta", {})
        if "progressToken" in meta:
            params = {"progressToken": meta["progressToken"], "progress": b}
            one.wire.says({"method": "notifications/progress", "params": params}, about=one.message["id"])
            self.scene.settle()

    def do_log(self, a: int, b: int) -> None:
        one = self._pick(a)
        wire = one.wire if one is not None else self._wire(a)
        if wire is not None:
            params = {"level": LEVELS[b % 3], "data": f"log {b}"}
            about = one.message["id"] if one is not None and b > 3 else None
            wire.says({"method": "notifications/message", "params": params}, about=about)
            self.scene.settle()

    def do_changed(self, a: int, b: int) -> None:
        wire = self._wire(a)
        if wire is not None:
            self._tells(wire, CHANGES[b % len(CHANGES)], {})

    def do_updated(self, a: int, b: int) -> None:
        wire = self._wire(a)
        if wire is not None:
            self._tells(wire, "notifications/resources/updated", {"uri": f"mem://{wire.service.name}/0"})

    def _tells(self, wire: Wire, method: str, params: Message) -> None:
        if wire.service.is_modern:
            if not wire.listening:
                return
            params = params | {"_meta": {mcp.META_SUBSCRIPTION: wire.listening[-1]}}
        wire.says({"method": method, "params": params})
        self.scene.settle()

    # -- storms ------------------------------------------------------------------------------------------------

    def do_core_junk(self, a: int, b: int) -> None:
        if self.core < 0 or self.scene.cores[self.core].is_closed:
            return
        junk = (
            b"{",
            b"[]",
            b"nonsense\xff",
            b'{"jsonrpc":"2.0"}',
            b'{"id":1,"method":"ping"',
            b"7",
            b"null",
            b"\x00",
        )
        if b % 2:
            self.scene.cores[self.core].stray(junk[a], STRAYS[b % len(STRAYS)], size=len(junk[a]))
        else:
            self.scene.core_says(self.core, junk[a])
        self.scene.settle()

    def do_long_core_junk(self, a: int, b: int) -> None:
        if self.core >= 0:
            self.scene.core_says(self.core, LONG_JUNK[a])
            self.scene.settle()

    def do_orphan_reply(self, a: int, b: int) -> None:
        if self.core >= 0:
            self.scene.core_says(self.core, _bytes({"id": 90 + a, "result": {}}))

    def do_twice(self, a: int, b: int) -> None:
        """An id that is in flight is used again."""
        if self.open and self.core >= 0:
            asked = self.open[list(self.open)[a % len(self.open)]]
            self.scene.core_says(self.core, _bytes(asked.message))

    def do_leave(self, a: int, b: int) -> None:
        if b == 0 and self.core >= 0:
            self.scene.hang_up(self.core, TransportError("closed", "gone") if a % 2 else None)
            self._end()

    def do_reconnect(self, a: int, b: int) -> None:
        """Nothing that a core of one session could do."""

    def do_damaged(self, a: int, b: int) -> None:
        """An answer whose end is missing."""
        one = self._pick(a)
        if one is None:
            return
        one.wire.service.asked.remove(one)
        data = _bytes({"id": one.message["id"], "result": {"content": []}})[: -1 - b % 3]
        if b % 2:
            one.wire.peer.stray(data, STRAYS[b % len(STRAYS)], size=len(data))
        else:
            one.wire.says(data)
        self.scene.settle()

    def do_long_damage(self, a: int, b: int) -> None:
        """As `damaged`, by what stands far behind."""
        one = self._pick(b)
        if one is not None:
            one.wire.service.asked.remove(one)
            data = LONG_JUNK[a].replace(b'"method":"ping","params"', b'"result"')
            one.wire.says(data.replace(b'"id":7', b'"id":%d' % one.message["id"]))
            self.scene.settle()

    def do_stray(self, a: int, b: int) -> None:
        wire = self._wire(a)
        if wire is not None:
            wire.peer.stray(b"stray %d" % b, STRAYS[b % len(STRAYS)], size=7)
            self.scene.settle()

    def do_stderr(self, a: int, b: int) -> None:
        wire = self._wire(a)
        if wire is not None and wire.peer.sessions and not wire.service.stamped:
            wire.peer.tap.record(
                "raw",
                "peer>",
                b"words",
                peer=wire.peer.name,
                life=max(wire.peer.life, 1),
                x={"stream": "stderr"},
            )
            self.scene.stage.said(wire.peer.name, "words")

    def do_peer_junk(self, a: int, b: int) -> None:
        wire = self._wire(a)
        if wire is not None:
            wire.says(
                (
                    b"Listening on port 80",
                    b"{",
                    b"[1]",
                    b'{"jsonrpc":"2.0","id":1}',
                    b"{}\x00",
                    b"7",
                    b"",
                    b"[]",
                )[b]
            )
            self.scene.settle()

    def do_orphan(self, a: int, b: int) -> None:
        wire = self._wire(a)
        if wire is not None:
            wire.says({"id": 900 + b if b % 2 else b, "result": {"content": []}})
            self.scene.settle()

    def do_again(self, a: int, b: int) -> None:
        """An answer is given twice, or to a request that was taken back."""
        if self._last:
            wire, message = self._last[a % len(self._last)]
            if wire.is_up:
                wire.says(message)
                self.scene.settle()

    def do_dies(self, a: int, b: int) -> None:
        wire = self._wire(a)
        if wire is not None and b < 4:
            self.scene.die(wire)

    def do_renews(self, a: int, b: int) -> None:
        """The restart of whatever has died comes."""
        self.scene.passes(0.15)

    def do_down(self, a: int, b: int) -> None:
        service = self.scene.services[self.names[a % len(self.names)]]
        service.is_down = b < 4

    def do_given_up(self, a: int, b: int) -> None:
        """Somebody has had enough of a peer's failing, or tries it again."""
        service = self.scene.services[self.names[a % len(self.names)]]
        service.is_given_up = b < 4

    def do_silent(self, a: int, b: int) -> None:
        service = self.scene.services[self.names[a % len(self.names)]]
        service.is_silent = b < 4

    def do_carry(self, a: int, b: int) -> None:
        """One request cannot be carried (HTTP)."""
        one = self._pick(a)
        if one is not None and one.wire.service.stamped:
            one.wire.service.asked.remove(one)
            fault = TransportError(
                "http-status", "HTTP 502", {"sent": bool(b % 2)}, request_id=one.message["id"]
            )
            one.wire.peer.failed(fault)
            self.scene.settle()

    def do_long(self, a: int, b: int) -> None:
        self.scene.passes((0.04, 0.3, 4.0, 8.0, 21.0, 35.0, 0.04, 65.0)[b])

    def do_lag(self, a: int, b: int) -> None:
        """Timers ring so late from here on: the machine has other things to do."""
        self.scene.clock.lag = b * 50_000_000

    def do_longer(self, a: int, b: int) -> None:
        if b == 0:
            self.scene.passes(700)


def _bytes(message: Message) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0"} | message)


def _question(number: int) -> Message:
    if number % 3 == 0:
        schema: Message = {"type": "object", "properties": {}}
        return {
            "method": "elicitation/create",
            "params": {"message": f"sure {number}?", "requestedSchema": schema},
        }
    if number % 3 == 1:
        return {"method": "roots/list", "params": {}}
    said = [{"role": "user", "content": {"type": "text", "text": f"say {number}"}}]
    return {"method": "sampling/createMessage", "params": {"messages": said, "maxTokens": 5}}


def _reply(question: Message, number: int) -> Any:
    method = question["method"]
    if method == "elicitation/create":
        fields = question.get("params", {}).get("requestedSchema", {}).get("properties", {})
        if choices := fields.get("value", {}).get("enum"):
            return {"action": "accept", "content": {"value": choices[number % len(choices)]}}
        return {"action": "accept", "content": {"n": number}}
    if method == "roots/list":
        return {"roots": [{"uri": f"file:///r{number}"}]}
    return {"role": "assistant", "content": {"type": "text", "text": f"said {number}"}, "model": "m"}
