"""Host calls of a driven replay: what connectors gave, and what was known to decisions, come out of the recording.

Owns that nothing is done and nobody is asked: decisions are made again from recorded facts, and answers given again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from gateway.calls.call import Reply
from gateway.calls.pi import host_words, words
from gateway.config.mistakes import Report
from gateway.policy.decide import PastFaultError
from gateway.policy.paths import Roots, named_roots
from gateway.policy.policyfile import read_policy
from gateway.policy.record import facts_of, is_decision
from gateway.policy.rules import Rules
from gateway.protocol import jsonrpc
from gateway.protocol.errors import Fault

if TYPE_CHECKING:
    from gateway.calls.host_call import Hosted
    from gateway.calls.peer_state import Peer
    from gateway.calls.ports import Authority
    from gateway.config.model import Config
    from gateway.policy.decide import Decision, Facts
    from gateway.replay.player import Player
    from recordings.frame import Frame


class StagedAuthority:
    """What was known when calls were decided about. Implements `calls.ports.Authority`."""

    def __init__(
        self,
        config: Config,
        recorded: Callable[[Hosted], dict[str, Any] | None],
        joined: Callable[[Hosted], bool] = lambda _: False,
        is_joined: Callable[[Hosted], bool] = lambda _: False,
    ) -> None:
        """`recorded` finds the `x` of the decision about a call; `joined` says whether it had another's question.

        `is_joined` says whether another one is yet to come that had the question of a call.
        """
        self._recorded = recorded
        self._joined = joined
        self._is_joined = is_joined
        policy, _ = read_policy(config.extensions.policy, Report(file="recording.json"))
        self.rules = Rules(policy)
        self.roots = Roots(named_roots(config.extensions.roots or ["/"]))

    def known(self, hosted: Hosted, facts: Facts) -> tuple[Facts, str]:
        """Return what the world had added to the facts.

        Raises:
            LookupError: If no decision about such a call was recorded.
            PastFaultError: If the world could add nothing then.
            RecordedError: If it cannot be read.
        """
        x = self._recorded(hosted)
        if x is None:
            raise LookupError("no decision about this call was recorded")
        was = facts_of(x)
        if x.get("layer") == "fault" and not was.executable:
            # A program is always known where anything is; what failed later fails again by itself.
            raise PastFaultError(str(x.get("reason", "")), str(x.get("why", "")), was)
        known = msgspec.structs.replace(
            facts, remembered=was.remembered, signals=was.signals, folds_case=was.folds_case,
            executable=was.executable, manifest=was.manifest, project=was.project, session=was.session,
            params_hash=was.params_hash,
        )  # fmt: skip
        return known, str(x.get("grants", ""))

    def keep(self, decision: Decision) -> None:
        """Nothing: later decisions hold what was remembered."""

    def joins(self, hosted: Hosted) -> bool:
        """As when it was recorded."""
        return self._joined(hosted)

    def keeps_open(self, hosted: Hosted) -> bool:
        """As when it was recorded."""
        return self._is_joined(hosted)


class PlayedAuthority:
    """The authority of a session some of whose extensions may be live. Implements `calls.ports.Authority`."""

    def __init__(
        self, played: Authority, live: Callable[[], Authority], is_played: Callable[[Peer], bool]
    ) -> None:
        """`live` makes what is asked about those that are not played."""
        self._played = played
        self._live = live
        self._is_played = is_played
        self.rules = played.rules
        self.roots = played.roots

    def known(self, hosted: Hosted, facts: Facts) -> tuple[Facts, str]:
        """As whoever knows the extension."""
        authority = self._played if self._is_played(hosted.peer) else self._live()
        return authority.known(hosted, facts)

    def keep(self, decision: Decision) -> None:
        """Nothing: a replay changes no file."""

    def joins(self, hosted: Hosted) -> bool:
        """As when it was recorded; never one that is live."""
        return self._is_played(hosted.peer) and self._played.joins(hosted)

    def keeps_open(self, hosted: Hosted) -> bool:
        """As when it was recorded; never one that is live."""
        return self._is_played(hosted.peer) and self._played.keeps_open(hosted)


class Staged:
    """A host call whose parts and end are recorded. Implements `calls.ports.Served`."""

    def __init__(self, hosted: Hosted) -> None:
        self.hosted: Hosted | None = hosted

    def credit(self, count: int) -> None:
        """Nobody waits for room."""

    def hold(self, *, full: bool) -> None:
        """Nor for a reader."""

    def cancel(self) -> None:
        """Nothing more comes of it."""
        self.hosted = None


class StagedCalls:
    """The host calls of one driven replay."""

    def __init__(self, config: Config, recorded_of: Callable[[int], int | None]) -> None:
        """`recorded_of` finds the recorded number of a frame of the replay."""
        self._config = config
        self._recorded_of = recorded_of
        self._decisions: dict[int, dict[str, Any]] = {}
        """By the recorded number of the call: the first decision about it."""
        self._open: dict[int, Staged] = {}
        """By the number that the call has in the replay."""

    def expect(self, frame: Frame) -> None:
        """A recorded frame."""
        if frame.kind == "policy" and frame.parent is not None and is_decision(frame.x):
            self._decisions.setdefault(frame.parent, frame.x or {})

    def authority(self) -> StagedAuthority:
        """Return the authority of a session."""
        return StagedAuthority(self._config, self._decided)

    def _decided(self, hosted: Hosted) -> dict[str, Any] | None:
        seq = self._recorded_of(hosted.seq)
        return self._decisions.get(seq) if seq is not None else None

    def serve(self, hosted: Hosted) -> Staged:
        """Wait for the recorded answer."""
        staged = self._open[hosted.seq] = Staged(hosted)
        return staged

    def play(self, frame: Frame, body: bytes, live: int | None) -> bool:
        """Let a recorded part or end of a call come from its connector; whether the frame is one.

        `live` is the number that the call has in the replay.
        """
        staged = self._open.get(live) if live is not None else None
        hosted = staged.hosted if staged is not None else None
        if hosted is None:
            return False
        give(hosted, frame.kind, body)
        return True


def give(hosted: Hosted, kind: str, body: bytes) -> None:
    """Give a host call what the body of a recorded frame says that it was given: a part, or its end.

    Raises:
        BadMessage: If the body is no message.
    """
    envelope = jsonrpc.read(body)
    if kind == "chunk":
        chunk = host_words.read_chunk(bytes(envelope.params))
        if chunk is not None:
            hosted.gave(bytes(chunk.output))
    elif kind == "error":
        hosted.ended(Reply(error=bytes(envelope.error)))
    else:
        hosted.ended(Reply(result=bytes(host_words.output_of(bytes(envelope.result)))))


def give_again(player: Player, served: Staged) -> None:
    """Give a host call all that its recorded one was given."""
    call = player.hosting.call_of(served.hosted.seq) if served.hosted is not None else None
    for seq in player.script.host_calls.given[call] if call is not None else ():
        if served.hosted is not None:
            give(served.hosted, player.script.source.frame(seq).kind, player.script.body(seq))
    if served.hosted is not None:
        why = "Replay: the recording does not say what this host call was given"
        served.hosted.ended(
            Reply(fault=Fault(code="io", message=why, reason="not_recorded", outcome="unknown"))
        )


def is_of_connector(frame: Frame) -> bool:
    """Whether a frame may be what a connector gave."""
    if frame.way != ">peer" or frame.re is None:
        return False
    return frame.kind in ("response", "error") or (frame.kind == "chunk" and frame.method == words.CHUNK)
