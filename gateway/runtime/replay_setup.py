"""How a recording, a choice of mode and a configuration of live services become a gateway that replays.

Owns what the modes need and which peers are played. Who is served, and where, is the caller's business: the command
line's, or a test's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec.structs import replace

from gateway.config.model import Config, RecordConfig
from gateway.config.places import usual_roots
from gateway.config.recorded import config_of, has_terminal, profiles_of
from gateway.protocol import hops
from gateway.replay.misses import Allowed, MissPolicy, Mode
from gateway.replay.tools import rules_of_tools
from gateway.runtime.replay_world import ReplayOptions, ReplayWorld
from recordings.faultrules import FaultRule, planned, targets_of
from recordings.gate import Strength
from recordings.hops import hops_of
from recordings.script import Script
from recordings.sources import source_of

if TYPE_CHECKING:
    from gateway.config.peer import PeerConfig
    from recordings.divergence import Report
    from recordings.profile import Profile
    from recordings.reader import Recording

PeerMode: TypeAlias = Literal["mock", "live", "inner", "off"]
MakeReplay: TypeAlias = "partial[ReplayWorld]"


class ChoiceError(Exception):
    """Options that do not go together: one sentence without a period, and what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """How a recording is to be replayed."""

    gate: Strength | None = None
    """None: what suits the recording."""
    mode: Mode = "replay"
    lenient: Literal["error", "nearest", "stub"] = "nearest"
    allow: tuple[str, ...] = ()
    """For `hybrid`: `PEER` or `PEER:METHOD`, globs."""
    peers: dict[str, PeerMode] = field(default_factory=dict[str, "PeerMode"])
    cut: tuple[str, ...] = ()
    """Kinds of hops (`lsp`, `sql`): peers that have such ones run, with the recording behind them."""
    faults: tuple[FaultRule, ...] = ()
    """What is put into the replay."""
    pace: float = 0.0
    patience_s: float = 10.0

    @property
    def needs_services(self) -> bool:
        """Whether a live service may be asked."""
        reached = {"live", "inner"} & set(self.peers.values())
        return self.mode in ("once", "extend", "hybrid") or bool(reached or self.cut)


def set_up(
    source: Recording,
    choice: Choice,
    services: Config | None,
    *,
    records: bool,
    rules: Profile | None = None,
    more: Sequence[Recording] = (),
    on_report: Callable[[Report], None] | None = None,
) -> tuple[Config, MakeReplay]:
    """Return the configuration of a gateway that replays, and what makes its world.

    `services` is the configuration of live peers, where there may be any; `records` says whether the replay is to be
    recorded itself. `rules` come before those of the recording and of the configuration. `more` are further recordings
    of the same peers, each for a session.

    Raises:
        ChoiceError: If the choice does not go together, or with the recording.
        RecordingError: If the recording is damaged.
        ProfileError: If a rule is none.
    """
    if choice.needs_services and services is None:
        raise ChoiceError(
            f"mode `{choice.mode}` may need live services"
            if choice.mode != "replay"
            else "a live peer has to be reached",
            "Name the configuration of live services, or one server's command",
        )
    recorded, live = profiles_of(
        source.header.settings,
        roots=usual_roots(),
        more=services.replay if services is not None else None,
    )
    if rules is not None:
        recorded, live = recorded.behind(rules), live.behind(rules)
    frames = source_of(source)
    peers = choice.peers
    if choice.cut or "inner" in peers.values():
        peers = _cut(choice, hops_of(frames.rows()))
    reached = frozenset(name for name, how in peers.items() if how in ("live", "inner"))
    script = Script(frames, recorded, live=reached)
    of_tools = rules_of_tools(script)
    script.profile, live = recorded.with_rules(of_tools), live.with_rules(of_tools)
    faults = planned(choice.faults, targets_of(source), source.header.seed) if choice.faults else {}
    if choice.faults and more:
        raise ChoiceError("faults strike frames of one recording", "Name one")
    if choice.faults and not faults:
        raise ChoiceError(
            "no recorded frame is struck by the faults", "`tieline frames` shows what there is, with numbers"
        )
    options = ReplayOptions(
        path=source.path,
        strength=choice.gate,
        misses=_misses(choice, services),
        pace=choice.pace,
        patience_s=choice.patience_s,
        profile=live,
        faults=faults,
        seed=source.header.seed,
        terminal=has_terminal(source.header.settings),
        live=reached,
        inner=frozenset(name for name, how in peers.items() if how == "inner"),
        services=dict(services.active_peers) if services is not None else {},
    )
    config = _config(source, dataclasses.replace(choice, peers=peers), services, options, records=records)
    others = [(one.path, _another(one, source, rules, reached)) for one in more]
    return config, partial(ReplayWorld, script=script, options=options, more=others, on_report=on_report)


def _cut(choice: Choice, recorded: dict[str, list[str]]) -> dict[str, PeerMode]:
    """How each peer is reached, once those are found that have hops of the kinds that are cut."""
    peers = dict(choice.peers)
    known = ", ".join(f"{peer}/{hop}" for peer, found in recorded.items() for hop in found)
    for kind in choice.cut:
        cut = [peer for peer, found in recorded.items() if any(hop.startswith(f"{kind}:") for hop in found)]
        if not cut:
            hint = f"It has {known}" if known else "Record with `hops = true` at the peers that are adapters"
            raise ChoiceError(f"the recording has no hop of the kind `{kind}`", hint)
        peers |= dict.fromkeys(cut, "inner")
    for name, how in peers.items():
        if how == "inner" and name not in recorded:
            raise ChoiceError(
                f"the recording does not say what `{name}` had behind it",
                f"Record with `hops = true` in `[peers.{name}]`",
            )
    return peers


def _another(
    other: Recording, source: Recording, rules: Profile | None, live: frozenset[str] = frozenset()
) -> Script:
    """The script of a further recording."""
    if set(other.header.peers) != set(source.header.peers):
        raise ChoiceError(
            f"`{other.path.name}` and `{source.path.name}` are recordings of different peers",
            "Replay recordings of one configuration together",
        )
    recorded, _ = profiles_of(other.header.settings, roots=usual_roots())
    if rules is not None:
        recorded = recorded.behind(rules)
    script = Script(source_of(other), recorded, live=live)
    script.profile = recorded.with_rules(rules_of_tools(script))
    return script


def _misses(choice: Choice, services: Config | None) -> MissPolicy:
    if choice.allow and choice.mode != "hybrid":
        raise ChoiceError("what may be asked live is named for mode `hybrid` alone", "Leave it out")
    allowed = tuple(
        Allowed(peer, method or "*") for peer, _, method in (each.partition(":") for each in choice.allow)
    )
    if choice.mode == "hybrid" and not allowed:
        raise ChoiceError(
            "mode `hybrid` asks nothing live that is not allowed", "Name what may be: PEER, or PEER:METHOD"
        )
    reached = frozenset(services.active_peers) if services is not None else frozenset[str]()
    return MissPolicy(mode=choice.mode, lenient=choice.lenient, allowed=allowed, services=reached)


def _config(
    source: Recording, choice: Choice, services: Config | None, options: ReplayOptions, *, records: bool
) -> Config:
    config, _ = config_of(source.header.settings, list(source.header.peers))
    peers = {name: replace(peer, scope="session") for name, peer in config.peers.items()}
    for name in choice.peers:
        if name not in peers:
            raise ChoiceError(f"the recording has no peer `{name}`", f"It has {', '.join(peers)}")
    for name in sorted(options.live):
        peers[name] = _service(options, name)
    peers = {name: peer for name, peer in peers.items() if choice.peers.get(name) != "off"}
    record = replace(services.record if services is not None else RecordConfig(), enabled=records)
    secrets = services.secrets if services is not None else frozenset[str]()
    telemetry = config.telemetry
    if services is not None and choice.needs_services:
        # What a live extension asks for is really done, so it leaves its evidence.
        told = services.telemetry
        telemetry = replace(telemetry, log=told.log, log_file=told.log_file, scenario_id=told.scenario_id)
    return replace(config, peers=peers, record=record, secrets=secrets, telemetry=telemetry)


def _service(options: ReplayOptions, name: str) -> PeerConfig:
    found = options.services.get(name)
    if found is None:
        raise ChoiceError(f"the configuration has no peer `{name}`", "A live peer has to stand there")
    if name not in options.inner:
        return found
    if not found.command:
        raise ChoiceError(
            f"`{name}` is not started by the gateway, so nothing can stand behind it", "Name its `command`"
        )
    return replace(found, hops=True, scope="session", env={**found.env, hops.ENVIRON: "play"})
