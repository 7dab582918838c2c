"""Whether a host call may happen: what it needs, found out from what it is, and the decision of that.

Owns what of the world a decision is made of: what is known of an extension, what that has registered, and what its
manifest file states. How these are weighed is `policy.decide`'s; that a decision is recorded, and what follows from it,
is `host_call.py`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from gateway.calls.faults import bad_host_call
from gateway.policy.capability import CallError, Need, checked, need_of
from gateway.policy.decide import Decision, Facts, decide, not_judged, undecided
from gateway.policy.manifest import Declaration, Standing, declaration
from gateway.protocol.canonical import params_hash
from gateway.protocol.errors import Fault

if TYPE_CHECKING:
    from gateway.calls.host_call import Hosted
    from gateway.calls.peer_state import Peer
    from gateway.calls.ports import Authority


class Judge:
    """Judges the host calls of one session."""

    def __init__(self, authority: Authority, tell: Callable[[str], None]) -> None:
        """`tell` is told why what is to be known for a decision cannot be read."""
        self._authority = authority
        self._tell = tell
        self._stated: dict[str, tuple[dict[str, Any], Declaration]] = {}
        """What manifest files state, and what that means, by peer."""

    def decided(self, hosted: Hosted, has_ui: Callable[[], bool]) -> Decision | Fault:
        """Find out what a call needs, and whether that may happen; a fault where it cannot be read.

        `has_ui` tells whether somebody can be asked about it.
        """
        authority = self._authority
        try:
            hosted.params = msgspec.json.decode(hosted.raw, type=dict[str, Any])
            checked(hosted.capability, hosted.verb, hosted.params)
            hosted.need = need_of(hosted.verb, hosted.params, authority.roots)
        except CallError as error:
            facts = Facts(extension=hosted.peer.name, need=hosted.need, life=hosted.peer.life)
            return not_judged(authority.rules, facts, error)
        except (msgspec.DecodeError, RecursionError) as error:
            return bad_host_call("bad_params", f"`params` cannot be read: {error}")
        return self.decision(hosted, hosted.need, has_ui=has_ui())

    def decision(self, hosted: Hosted, need: Need, *, has_ui: bool) -> Decision:
        """Decide whether a call may do what it needs."""
        authority, peer = self._authority, hosted.peer
        registered = peer.registered
        facts = Facts(extension=peer.name, need=need, life=peer.life, has_ui=has_ui)
        try:
            facts = msgspec.structs.replace(
                facts,
                standing=self._standing(peer, need),
                manifest=registered.declaration.hash if registered is not None else "",
                folds_case=authority.roots.folds_case(need.root),
                params_hash=params_hash(hosted.verb, hosted.raw),
            )
            facts, grants = authority.known(hosted, facts)
        except Exception as fault:  # noqa: BLE001 - whatever it is, nothing is allowed by it
            self._tell(
                f"host calls of {peer.name} are denied, since what is to be known of it cannot be read: {fault}"
            )
            return undecided(authority.rules, facts, fault)
        return decide(authority.rules, facts, grants=grants)

    def _standing(self, peer: Peer, need: Need) -> Standing:
        """What an extension has declared about a call. Beyond what its manifest file states, it declares in vain: that
        is what somebody has read before it was started.

        Raises:
            BudgetError: As `Declaration.standing`.
        """
        wants = peer.config.wants
        standing: Standing = "declared"
        if wants is not None:
            known = self._stated.get(peer.name)
            if known is None or known[0] is not wants:
                known = self._stated[peer.name] = (wants, declaration(wants)[0])
            standing = known[1].standing(need)
        if standing == "declared":
            registered = peer.registered
            standing = registered.declaration.standing(need) if registered is not None else "undeclared"
        return standing
