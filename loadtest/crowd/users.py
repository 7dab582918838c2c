"""The users of a load test: one that follows a script, one that does what a recorded agent did, one that makes trouble.

Owns what each does with its connection and what is counted of it. When a recorded call is due is `pacing`'s business,
what was recorded `plan`'s, and how bytes travel `raw_clients`'.
"""

from __future__ import annotations

import os
import time
from typing import Any, ClassVar

from locust import User, task

from loadtest.crowd import raw_clients
from loadtest.crowd.crew import Crew
from loadtest.crowd.green import Flag, Greenlet, Late, sleep, spawn
from loadtest.crowd.pacing import Due, Pacer, Sample, arrival
from loadtest.crowd.place import GOOD, tool_of
from loadtest.crowd.plan import is_error
from loadtest.crowd.raw_clients import Client, Gone
from loadtest.crowd.script import Call
from loadtest.crowd.tally import ANOTHER_AGENT, CALM, CHAOS, SAME_AGENT, SESSION
from loadtest.crowd.tools import INITIALIZE, INITIALIZED, client_of
from loadtest.crowd.voice import Voice, alone, said_of, under

PATIENCE_S = 30.0
"""How long a user of a closed model waits for an answer before it counts it as none."""
ANSWER_S = 5.0
"""How long a call to a peer that misbehaves may be open at the end of a run: many times what the peer is given."""
AGAIN_S = 0.5
"""How long a user whose connection was lost waits before it connects again."""
STEP_S = 0.05
"""How often a user that waits looks whether the run is over."""
UNANSWERED = "no answer when the run was over"


class GatewayUser(User):
    """An agent that is connected to a gateway."""

    abstract = True
    kind: ClassVar[str] = ""
    environment: Any
    crew: Crew
    number: int

    def on_start(self) -> None:
        self.crew = self.environment.crew
        self.number = self.crew.join()
        self.ids = 0

    @task
    def work(self) -> None:
        """Work until the run is over, then wait to be sent home."""
        try:
            while not self.crew.is_over:
                self.session()
        finally:
            self.crew.leave()
        while True:
            sleep(1)

    def session(self) -> None:
        """One session, from its opening to its end."""
        raise NotImplementedError

    def client(
        self, answerer: raw_clients.Answerer = raw_clients.nobody, *, is_stateless: bool = False
    ) -> Client:
        """A new connection, not yet open."""
        place = self.crew.place
        if place.transport == "http" and is_stateless:
            who = {"X-Tieline-Session": f"load-{os.getpid()}-{self.number}-{time.monotonic_ns()}"}
            return raw_clients.HttpClient(place.url, {**place.headers, **who}, answerer, alone)
        return client_of(place, answerer)

    def opened(self, client: Client, greeting: bytes | None = INITIALIZE) -> bool:
        """Connect and shake hands; return whether it worked. Waits a little if not."""
        began = time.monotonic()
        fault = None
        self.ids = 1
        try:
            client.open()
            if greeting is not None:
                answer = client.ask(1, under(greeting, 1), PATIENCE_S)
                fault = said_of(answer) if is_error(answer) else None
                client.tell(INITIALIZED)
        except Gone as gone:
            fault = str(gone)
        except Late:
            fault = f"no answer to the handshake in {PATIENCE_S:g} s"
        self.count(SESSION, time.monotonic() - began, fault)
        if fault is not None:
            client.close()
            self.rest(AGAIN_S)
        return fault is None

    def next_id(self) -> int:
        """The id of the next request."""
        self.ids += 1
        return self.ids

    def count(
        self, name: str, seconds: float, fault: str | None = None, *, kind: str = "", lost: bool = False
    ) -> None:
        """Count one call, for us and for locust."""
        kind = kind or self.kind
        self.crew.tally.add(kind, name, seconds * 1e6, fault, lost=lost)
        self.environment.events.request.fire(
            request_type=kind,
            name=name,
            response_time=seconds * 1000,
            response_length=0,
            exception=RuntimeError(fault) if fault is not None else None,
            context={},
        )

    def rest(self, seconds: float) -> None:
        """Do nothing for so long, or until the run is over."""
        until = time.monotonic() + seconds
        while not self.crew.is_over and (left := until - time.monotonic()) > 0:
            sleep(min(left, STEP_S))

    def ask(self, client: Client, call: Call, lane: str, name: str, *, kind: str = "") -> bool:
        """Make one call of a closed model and count it; return whether there is still a connection."""
        id_ = self.next_id()
        began = time.monotonic()
        answer, fault, lost, is_there = None, None, False, True
        waiting = Waiting(client, id_, call.body(id_, lane))
        try:
            answer = waiting.answer(self.crew)
            if answer is None:
                fault, lost = UNANSWERED, True
        except Gone as gone:
            fault, is_there = str(gone), False
        except Late:
            fault = f"no answer in {PATIENCE_S:g} s"
        # To read an answer is our work, and not the gateway's.
        seconds = time.monotonic() - began
        if answer is not None and is_error(answer):
            fault = said_of(answer)
        self.count(name, seconds, fault, kind=kind, lost=lost)
        return is_there


class Waiting:
    """One request that is waited for as long as the run goes on, and a moment longer."""

    def __init__(self, client: Client, id_: int, body: bytes) -> None:
        self._box = raw_clients.Box[bytes]()
        self._asking = spawn(self._ask, client, id_, body)

    def _ask(self, client: Client, id_: int, body: bytes) -> None:
        try:
            self._box.set(client.ask(id_, body))
        except Gone as gone:
            self._box.fail(gone)

    def answer(self, crew: Crew) -> bytes | None:
        """The answer; None where the run was over before. Raises `Gone` and `Late`."""
        until = time.monotonic() + PATIENCE_S
        while True:
            left = crew.patience_s if crew.is_over else until - time.monotonic()
            if left <= 0:
                self._asking.kill(block=False)
                if crew.is_over:
                    return None
                raise Late
            try:
                return self._box.get(min(left, STEP_S * 4))
            except Late:
                continue


class ScriptedUser(GatewayUser):
    """A closed model: one call after another, with the script's thoughts in between, in as many lanes as are wanted."""

    kind = "scripted"

    def session(self) -> None:
        client = self.client()
        if not self.opened(client):
            return
        lanes = [
            spawn(self.lane, client, f"lane{number + 1}" if self.crew.lanes > 1 else "")
            for number in range(self.crew.lanes)
        ]
        try:
            for lane in lanes:
                lane.join()
        finally:
            for lane in lanes:
                lane.kill(block=False)
            client.close()

    def lane(self, client: Client, lane: str) -> None:
        """Follow the script until the run or the connection is over."""
        script = self.crew.script
        assert script is not None
        while not self.crew.is_over:
            for call in script.call:
                if self.crew.is_over or not self.ask(client, call, lane, f"tools/call {call.tool}"):
                    self.rest(AGAIN_S)
                    return
                self.rest(call.think_ms / 1000)


class RecordedUser(GatewayUser):
    """An open model: the calls of a recorded agent, each at its time, whatever became of those before."""

    kind = "recorded"

    def on_start(self) -> None:
        super().on_start()
        self.began = time.monotonic()
        self.round = 0

    def session(self) -> None:
        plan, crew = self.crew.plan, self.crew
        assert plan is not None
        length_s = plan.length_s / crew.factor
        arrived = self.began + arrival(
            self.number, crew.agents, self.round, length_s, min(crew.spread_s or length_s, length_s)
        )
        self.round += 1
        self.rest(arrived - time.monotonic())
        if crew.is_over:
            return
        voice = Voice(plan)
        client = self.client(voice.answers, is_stateless=plan.greeting is None)
        playing = Playing(self, client, voice, Pacer(plan.calls, arrived=arrived, factor=crew.factor))
        try:
            playing.run(is_open=self.opened(client, plan.greeting))
        finally:
            client.close()


class Playing:
    """One round of a recorded agent."""

    def __init__(self, user: RecordedUser, client: Client, voice: Voice, pacer: Pacer) -> None:
        assert user.crew.plan is not None
        self._user = user
        self._client = client
        self._said = user.crew.plan.said
        self._voice = voice
        self._pacer = pacer
        self._endless: list[Greenlet] = []
        """Requests that nobody waits for: subscriptions, and what is taken back."""
        self._moved = Flag()
        self._is_open = True
        self._is_over = False

    def run(self, *, is_open: bool) -> None:
        """Send everything at its time, and count everything that was due."""
        self._is_open = is_open
        crew, pacer = self._user.crew, self._pacer
        while not pacer.is_done:
            now = time.monotonic()
            for due in pacer.due(now, until=crew.ended):
                self._send(due)
            if crew.is_over and (not pacer.is_waiting or crew.patience_s <= 0):
                break
            self._wait(None if crew.is_over else pacer.next_at())
        self._is_over = True
        for sample in pacer.finish(time.monotonic(), until=crew.ended):
            self._count(sample, UNANSWERED)
        for greenlet in self._endless:
            greenlet.kill(block=False)

    def _wait(self, upcoming: float | None) -> None:
        """Until the next call is due, an answer comes, or it is time to see whether the run is over."""
        self._moved.clear()
        wait = STEP_S if upcoming is None else min(upcoming - time.monotonic(), STEP_S)
        if wait > 0 and not self._moved.wait(wait) and upcoming is not None:
            late = time.monotonic() - upcoming
            if late > 0:
                self._user.crew.tally.lag.add(late * 1e6)

    def _send(self, due: Due) -> None:
        if self._said[due.key].kind == "request":
            id_ = self._user.next_id()
            going = spawn(self._ask, due, id_, self._voice.asks(due.key, id_))
            if not due.is_awaited:
                self._endless.append(going)
            return
        try:
            self._client.tell(self._voice.tells(due.key))
        except Gone:
            self._is_open = False

    def _ask(self, due: Due, id_: int, body: bytes) -> None:
        try:
            if not self._is_open:
                raise Gone("there was no session")
            answer = self._client.ask(id_, body)
            ended = time.monotonic()
            fault = self._voice.hears(due.key, answer)
        except Gone as gone:
            ended, fault = time.monotonic(), str(gone)
        if due.is_awaited and not self._is_over:
            self._count(self._pacer.ended(due.key, ended, ok=fault is None), fault)
        self._moved.set()

    def _count(self, sample: Sample, fault: str | None) -> None:
        lost = sample.ending in ("unanswered", "unsent")
        self._user.count(self._said[sample.key].label, sample.latency_s, fault, lost=lost)


class ChaosUser(GatewayUser):
    """An agent whose peers stall, crash and flood when told to, while another of its lanes calls one that behaves."""

    kind = "chaos"
    weight = 1

    def session(self) -> None:
        client = self.client()
        if not self.opened(client):
            return
        calm = spawn(watch, self, client, SAME_AGENT)
        try:
            while self.crew.is_calm and not self.crew.is_over:
                self.rest(STEP_S)
            turn = 0
            while not self.crew.is_over:
                fault = self.crew.faults[(turn + self.number) % len(self.crew.faults)]
                turn += 1
                if not self.trouble(client, fault):
                    break
                self.rest(0.1)
            calm.join()
        finally:
            calm.kill(block=False)
            client.close()

    def trouble(self, client: Client, fault: str) -> bool:
        """Have a peer misbehave. Whatever it does, the gateway has to answer; an error is right."""
        id_ = self.next_id()
        began = time.monotonic()
        wrong, lost, is_there = None, False, True
        try:
            waiting = Waiting(client, id_, Call(tool_of(fault)).body(id_))
            if waiting.answer(self.crew) is None:
                if time.monotonic() - began < ANSWER_S:
                    # The run has ended a moment after the call was made.
                    return True
                wrong, lost = UNANSWERED, True
        except Late:
            wrong = "the gateway has left the call without an answer"
        except Gone as gone:
            wrong, is_there = str(gone), False
        self.count(fault, time.monotonic() - began, wrong, lost=lost)
        return is_there


class Bystander(GatewayUser):
    """An agent of a session of its own that has nothing to do with peers that misbehave, and must not notice."""

    kind = "bystander"
    weight = 3

    def session(self) -> None:
        client = self.client()
        if not self.opened(client):
            return
        try:
            watch(self, client, ANOTHER_AGENT)
        finally:
            client.close()


def watch(user: GatewayUser, client: Client, who: str) -> None:
    """Call a peer that behaves, all the while, and count calls apart from before and after the trouble begins."""
    call = Call(GOOD, {"text": "still here"}, think_ms=10)
    while not user.crew.is_over:
        part = CALM if user.crew.is_calm else CHAOS
        if not user.ask(client, call, "", f"{who}, {part}", kind="bystander"):
            user.rest(AGAIN_S)
            return
        user.rest(call.think_ms / 1000)
