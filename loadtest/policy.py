"""What a decision about a host call costs under a policy of many rules: `python -m loadtest.policy`.

Measures the facts (capability, paths, what the manifest and earlier answers say) and the decision itself, for rules as
people write them and for the patterns that are the hardest to look up. Every call is about another path or host, so
that nothing is remembered from the one before. Prints microseconds, processor time, the least of several rounds.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from gateway.policy.capability import Need, need_of
from gateway.policy.decide import Decision, Facts, decide
from gateway.policy.grants import Grant, Grants
from gateway.policy.manifest import Declaration, read_manifest
from gateway.policy.model import Policy, Rule
from gateway.policy.paths import Root, Roots
from gateway.policy.rules import Rules
from loadtest.arguments import at_least_one

ROUNDS = 3
PART = 250
"""Calls that are measured together: few, since a machine is seldom left alone for long."""
GOAL_US = 10.0
"""Microseconds that a whole decision may take at 200 rules, on a machine that does nothing else."""
MANY = 10_000
"""Different calls of each kind."""

ROOTS = Roots([Root(id="cwd", path="/home/ann/shop"), Root(id="tmp", path="/tmp/work")])
NOW = datetime(2026, 11, 28, tzinfo=UTC)
MANIFEST = {
    "schema": "pi.ext.cap.v1",
    "capabilities": [
        {"capability": "read", "scope": {"paths": ["src/**", "docs/**", "**/*.md"]}},
        {"capability": "write", "scope": {"paths": ["src/**"]}},
        {"capability": "http", "scope": {"hosts": ["*.example.com"]}},
        {"capability": "tool"},
    ],
}


def typical(count: int) -> Policy:
    """Rules as people write them: folders, endings and hosts, for one extension or for all."""
    made: list[Rule] = []
    for n in range(count):
        extension = "*" if n % 3 else f"ext{n % 20}"
        made.append((
            Rule(verdict="deny", extension=extension, capability="read", paths=[f"private{n}/**", f"**/*.key{n}"]),
            Rule(verdict="allow", extension=extension, capability="read", paths=[f"src/part{n}/**"]),
            Rule(verdict="ask", extension=extension, capability="write", paths=[f"src/gen{n}/*.py"]),
            Rule(verdict="allow", extension=extension, capability="http", hosts=[f"api{n}.example.com"]),
            Rule(verdict="deny", extension=extension, capability="http", hosts=[f"*.bad{n}.example"]),
        )[n % 5])  # fmt: skip
    return Policy(mode="prompt", deny_caps=("env",), rules=tuple(made))


def endings(count: int) -> Policy:
    """Every rule refuses names of another form, wherever they lie."""
    return Policy(
        deny_caps=("env",),
        rules=tuple(Rule(verdict="deny", capability="read", paths=[f"**/x{n}*.md"]) for n in range(count)),
    )


def alike(count: int) -> Policy:
    """Every rule refuses names that begin and end alike: only the middle tells them apart."""
    return Policy(
        deny_caps=("env",),
        rules=tuple(Rule(verdict="deny", capability="read", paths=[f"**/*{n:03d}*"]) for n in range(count)),
    )


POLICIES: Mapping[str, Callable[[int], Policy]] = {"typical": typical, "endings": endings, "alike": alike}


def calls(kind: str) -> list[tuple[str, dict[str, Any]]]:
    """Host calls, each about something else."""
    if kind == "read":
        return [
            ("tool", {"name": "read", "input": {"path": f"src/part{n % 200}/area{n % 7}/page{n}.md"}})
            for n in range(MANY)
        ]
    if kind == "write":
        return [
            ("fs", {"op": "write", "path": f"/home/ann/shop/src/gen{n % 200}/m{n}.py"}) for n in range(MANY)
        ]
    if kind == "http":
        return [("http", {"url": f"https://api{n % 200}.example.com/v1/items/{n}"}) for n in range(MANY)]
    return [("tool", {"name": "deploy", "input": {"n": n}}) for n in range(MANY)]


class World:
    """One extension under one policy."""

    def __init__(self, policy: Policy) -> None:
        self._rules = Rules(policy)
        self._declared = Declaration(read_manifest(MANIFEST))
        self._grants = Grants(
            Grant(extension="ext0", capability=capability, verdict="allow", scope="always", executable="sha256:e",
                  manifest=self._declared.hash)
            for capability in ("http", "tool:deploy")
        )  # fmt: skip

    def facts(self, method: str, params: Mapping[str, Any]) -> Facts:
        """Everything about a call that a decision is made of."""
        need = need_of(method, params, ROOTS)
        return self.of(need)

    def of(self, need: Need) -> Facts:
        """As `facts`, where it is known what the call needs."""
        declared = self._declared
        return Facts(
            extension="ext0",
            need=need,
            standing=declared.standing(need),
            remembered=self._grants.remembered(
                "ext0", need, now=NOW, executable="sha256:e", manifest=declared.hash, folds_case=False
            ),
            signals=(("uses_fs", 800),),
            has_ui=True,
            executable="sha256:e",
            manifest=declared.hash,
        )

    def decide(self, facts: Facts) -> Decision:
        """The decision alone."""
        return decide(self._rules, facts, grants=self._grants.hash)


def least_us(action: Callable[[Any], object], items: Sequence[Any]) -> float:
    """Microseconds of processor time that an action takes for one of these, in the best of many short parts."""
    best = float("inf")
    for _ in range(ROUNDS):
        for at in range(0, len(items), PART):
            part = items[at : at + PART]
            began = time.thread_time()
            for item in part:
                action(item)
            best = min(best, (time.thread_time() - began) / len(part))
    return best * 1e6


def measured(count: int) -> dict[str, float]:
    """All figures: `facts` and `decide` apart, and `whole` for both."""
    figures: dict[str, float] = {}
    for name, policy in POLICIES.items():
        world = World(policy(count))
        for kind in ("read", "write", "http", "tool") if name == "typical" else ("read",):
            asked = calls(kind)
            needs = [need_of(method, params, ROOTS) for method, params in asked]
            facts = [world.of(need) for need in needs]
            label = f"{name} {kind}"
            figures[f"{label}: need"] = least_us(lambda each: need_of(each[0], each[1], ROOTS), asked)
            figures[f"{label}: facts"] = least_us(lambda each, world=world: world.facts(*each), asked)
            figures[f"{label}: decide"] = least_us(world.decide, facts)
            figures[f"{label}: whole"] = least_us(
                lambda each, world=world: world.decide(world.facts(*each)), asked
            )
    return figures


def main() -> None:
    """Print the figures, as a table or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rules", type=at_least_one, default=200)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = measured(options.rules)
    if options.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        goal = f"   goal {GOAL_US:g}" if name.endswith("decide") else ""
        print(f"{name:<24} {value:>8.2f} us{goal}")


if __name__ == "__main__":
    main()
