"""Every kind of user over every transport, in one process, since locust is slow to import: prints what was counted.

`python all_users.py DIR`. A scripted user is recorded first, and what it did is what the recorded ones do.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import locust.env

from loadtest.crowd import users
from loadtest.crowd.crew import Crew
from loadtest.crowd.green import sleep
from loadtest.crowd.place import TIELINE, Place, chaos_peers, running, toml_of
from loadtest.crowd.plan import is_error
from loadtest.crowd.script import Call, parse
from loadtest.crowd.sources import plan_from
from loadtest.crowd.users import Bystander, ChaosUser, RecordedUser, ScriptedUser

SCRIPT = '[[call]]\ntool = "good__echo"\narguments = { text = "a" }\nthink_ms = 5\n'
LISTEN = {"port": 0, "insecure_loopback": True}
FAULTS = ("crash", "flood", "stall")
ENOUGH = {"scripted": 8, "recorded": 8, "chaos": 3, "bystander": 8}
"""How many calls of each kind are waited for."""
PATIENCE_S = 30.0


def counted(kind: str, kinds: list[Any], crew: Crew, wanted: list[str]) -> dict[str, Any]:
    """Have these users work until there are enough calls; return what was counted."""
    environment: Any = locust.env.Environment(user_classes=kinds, catch_exceptions=False)
    environment.crew = crew
    crew.grace_s = PATIENCE_S
    crew.began = time.monotonic()
    runner = environment.create_local_runner()
    runner.start(2, spawn_rate=100)
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and not _has_enough(crew, wanted):
        if len(crew.tally.entries.get("bystander", {})) >= 3:
            # Both bystanders have been seen while nothing was wrong: let the trouble begin.
            crew.calm_s = 0.0
        sleep(0.01)
    crew.drain()
    runner.quit()
    return {
        "kind": kind,
        "figures": crew.tally.figures(1.0),
        "faults": crew.tally.faults,
        "leftover": crew.is_busy,
    }


def _has_enough(crew: Crew, wanted: list[str]) -> bool:
    """Whether there are enough calls of each kind, and bystanders were seen before the trouble and in it."""
    counts = {name: crew.tally.whole([name]).took.count for name in wanted}
    parts = len(crew.tally.entries.get("bystander", {}))
    return all(count >= ENOUGH[name] for name, count in counts.items()) and parts in (0, 5)


class Line:
    """A connection whose other end answers after so many seconds."""

    def __init__(self, after_s: float) -> None:
        self._after_s = after_s

    def ask(self, id_: int, body: bytes, timeout_s: float | None = None) -> bytes:
        sleep(self._after_s)
        return b'{"jsonrpc":"2.0","id":%d,"result":{}}' % id_

    def open(self) -> None: ...
    def tell(self, body: bytes) -> None: ...
    def close(self) -> None: ...


def alone(kind: Any, crew: Crew) -> Any:
    """A user that does nothing by itself."""
    environment: Any = locust.env.Environment(user_classes=[kind])
    environment.crew = crew
    user = kind(environment)
    user.on_start()
    return user


def unanswered(patience_s: float) -> dict[str, float]:
    """What is counted of a call to a bad peer that is open at the end of a run."""
    crew = Crew(Place("stdio"), faults=FAULTS, grace_s=0.0, ended=time.monotonic())
    users.ANSWER_S = patience_s
    alone(ChaosUser, crew).trouble(Line(3600.0), "stall")
    return crew.tally.figures(1.0)


def read_slowly() -> dict[str, float]:
    """What is counted of a call whose answer takes us 0.3 s to read."""

    def slow(answer: bytes) -> bool:
        time.sleep(0.3)
        return is_error(answer)

    users.is_error = slow
    crew = Crew(Place("stdio"), script=parse(SCRIPT, "script"))
    alone(ScriptedUser, crew).ask(Line(0.0), Call("echo"), "", "tools/call echo")
    users.is_error = is_error
    return crew.tally.figures(1.0)


def main() -> None:
    """Go through all of them."""
    out = Path(sys.argv[1])
    Bystander.weight = 1
    config, own = out / "tieline.toml", out / "stdio.toml"
    peers = chaos_peers(FAULTS, flood=200)
    config.write_text(toml_of(peers, {"websocket": LISTEN, "http": LISTEN}))
    own.write_text(toml_of(peers, {}))
    results: list[dict[str, Any]] = []
    with running(config, "websocket", out, records=True) as gateway:
        listeners = json.loads((out / "gateway.ready").read_text())["listeners"]
        places = [
            Place("ws", gateway.url),
            Place("http", next(one["url"] for one in listeners if one["kind"] == "http")),
            Place("stdio", command=[*TIELINE, "run", str(own), "--stdio"], state=str(out / "state")),
        ]
        script = parse(SCRIPT, "script")
        for place in places:
            crew = Crew(place, script=script, lanes=2)
            results.append(
                {"over": place.transport} | counted("scripted", [ScriptedUser], crew, ["scripted"])
            )
        plan = plan_from(min((out / "recordings").iterdir()))
        for place in places:
            crew = Crew(place, plan=plan, factor=2.0, agents=2, spread_s=0.05)
            results.append(
                {"over": place.transport} | counted("recorded", [RecordedUser], crew, ["recorded"])
            )
            crew = Crew(place, faults=FAULTS, calm_s=1e9)
            wanted = ["chaos", "bystander"]
            results.append({"over": place.transport} | counted("chaos", [ChaosUser, Bystander], crew, wanted))
    found = {"unanswered": unanswered(0.0), "just_made": unanswered(60.0), "read_slowly": read_slowly()}
    print(json.dumps({"lanes": plan.lanes, "results": results, **found}))


if __name__ == "__main__":
    main()
