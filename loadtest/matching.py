"""What it costs to find the recorded request for a live one: `python -m loadtest.matching`.

Measures the form of a request without and with volatile values, a remembered form, a match, and the three nearest
requests of a recording of many. Prints microseconds, processor time, the least of several rounds.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable, Iterator

from loadtest.arguments import at_least_one
from recordings.form import Forms, form_of
from recordings.matching import Live, Matcher, Recorded
from recordings.near import Nearest, Request
from recordings.profile import BUILT_IN, Rule

ROUNDS = 5
GOALS_US = {"form_plain": 6.0, "nearest": 5000.0, "match": 2.0, "match_repeated": 2.0, "match_no_lanes": 2.0}
"""What is to be kept on a machine that does nothing else."""

PROFILE = BUILT_IN.with_roots({"cwd": "/home/ann/shop", "home": "/home/ann", "tmp": "/tmp"})
RULED = PROFILE.with_rules([Rule(at="/params/arguments/**/ts", kind="timestamp", tool="query")])

PLAIN = (
    b'{"name":"query","arguments":{"sql":"select a, b, c from orders where region = \'north\' and total > 100",'
    b'"database":"sales","options":{"format":"table","limit":50,"explain":false,"columns":["a","b","c"]},'
    b'"comment":"a plain comment with nothing in it that another run would say otherwise, of some length"}}'
)
MODERN = (
    b'{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
    b'"io.modelcontextprotocol/clientInfo":{"name":"agent","version":"1.4"},"progressToken":7},' + PLAIN[1:]
)
PATH = b'{"name":"read","arguments":{"path":"/home/ann/shop/src/orders/invoice.py","limit":200}}'
VOLATILE = (
    b'{"name":"trace","arguments":{"session_id":"5f2c","since":"2026-11-28T03:00:00Z","cwd":"/home/ann/shop",'
    b'"text":"see 550e8400-e29b-41d4-a716-446655440000 and 6ba7b810-9dad-11d1-80b4-00c04fd430c8",'
    b'"key":"[REDACTED:named:00112233]","commit":"9fceb02d0ae598e95dc970b74767f19372d61af8"}}'
)


def least_us(action: Callable[[], object], times: int) -> float:
    """Microseconds that an action takes, in the best of the rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.thread_time()
        for _ in range(times):
            action()
        best = min(best, time.thread_time() - began)
    return best / times * 1e6


def recorded(count: int, seed: int) -> Iterator[bytes]:
    """Params of as many calls of one tool: common values, some rare ones, and a text of their own."""
    dice = random.Random(seed)
    for number in range(count):
        yield (
            b'{"name":"query","arguments":{"sql":"select %d from t%d where x = %d","database":"db%d",'
            b'"options":{"limit":%d,"format":"%s","explain":%s},"columns":["a","b","c%d"]}}'
        ) % (
            number,
            dice.randrange(1000),
            dice.randrange(count),
            dice.randrange(5),
            dice.choice((10, 50, 100)),
            dice.choice((b"table", b"json")),
            dice.choice((b"true", b"false")),
            dice.randrange(40),
        )


def measured(requests: int) -> dict[str, float]:
    """All figures in microseconds; `index` a request."""
    forms = Forms(PROFILE)
    figures = {
        "form_plain": least_us(lambda: form_of(PROFILE, "tools/call", "query", PLAIN), 5000),
        "form_modern": least_us(lambda: form_of(PROFILE, "tools/call", "query", MODERN), 5000),
        "form_ruled": least_us(lambda: form_of(RULED, "tools/call", "query", PLAIN), 2000),
        "form_path": least_us(lambda: form_of(PROFILE, "tools/call", "read", PATH), 2000),
        "form_volatile": least_us(lambda: form_of(PROFILE, "tools/call", "trace", VOLATILE), 1000),
        "form_remembered": least_us(lambda: forms.form("tools/call", "query", PLAIN), 20000),
    }
    params = list(recorded(requests, seed=1))
    index = Nearest(
        PROFILE, (Request(seq, "db", "tools/call", "query") for seq in range(requests)), params.__getitem__
    )
    began = time.thread_time()
    index.of("db", "tools/call", "query", PLAIN)
    figures["index"] = (time.thread_time() - began) / requests * 1e6
    lives = list(recorded(20, seed=2))
    figures["nearest"] = max(
        least_us(lambda live=live: index.of("db", "tools/call", "query", live), 1) for live in lives
    )
    return figures


def matched(requests: int) -> dict[str, float]:
    """What a match costs among so many recorded requests, in microseconds: the first run indexes, and is not counted.

    `match`: each of another key, in a hundred lanes. `match_repeated`: all of one key. `match_no_lanes`: each of
    another key, and no lane known.
    """
    figures: dict[str, float] = {}
    for name, keys, lanes in (
        ("match", requests, 100),
        ("match_repeated", 1, 100),
        ("match_no_lanes", requests, 0),
    ):
        forms = [form_of(PROFILE, "tools/call", "get", b'{"name":"get","arguments":{"key":"k %d"}}' % key)
                 for key in range(keys)]  # fmt: skip
        lives = [
            Live("db", f"turn{seq % lanes}" if lanes else "", "tools/call", "get", forms[seq % keys])
            for seq in range(requests)
        ]
        best = float("inf")
        for _ in range(3):
            matcher = Matcher(
                (
                    Recorded(
                        seq=seq, at=seq, peer="db", lane=live.lane, method="tools/call", name="get",
                        consumption="fifo",
                    )
                    for seq, live in enumerate(lives)
                ),
                form=lambda seq, forms=forms, keys=keys: forms[seq % keys],
                outcome=lambda seq: b"",
            )  # fmt: skip
            matcher.match(lives[0])
            began = time.thread_time()
            for live in lives[1:]:
                matcher.match(live)
            best = min(best, (time.thread_time() - began) / (requests - 1) * 1e6)
        figures[name] = best
    return figures


def main() -> None:
    """Print the figures, as a table or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--requests", type=at_least_one, default=200_000, help="recorded requests of one tool"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = measured(options.requests) | matched(options.requests)
    if options.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        goal = GOALS_US.get(name)
        print(f"{name:<16} {value:>10.2f} us" + (f"   goal {goal:g}" if goal else ""))


if __name__ == "__main__":
    main()
