"""How long a core that has sent its last message is waited for, and what is told of the calls that it leaves.

Owns the patience. That a core is owed answers, and when it has been given the last one, is its connection's business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.calls.concern import LISTEN

if TYPE_CHECKING:
    from gateway.calls.call import Call
    from gateway.calls.core_state import Core

LEAVING_S = 1.5
"""How long answers are waited for: less than clients take to end us, who then wait for our end and for no answer."""
STARTING = ("starting", "handshake")
MOST_NAMED = 5


class Leaving:
    """The time between a core's last message and the end of its connection.

    Where calls wait for a peer to start, they wait no longer than that may take, and `LEAVING_S` more for its answers:
    a client that wants to end us by then does so with a signal, and calls of cores that overstay hold up no end.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._waited = 0.0
        self._was_starting = False
        self.overstays = False
        """Whether the usual time is over."""
        self._again()

    def _again(self) -> None:
        self._core.session.exchange.host.later(LEAVING_S, self._look)

    def _look(self) -> None:
        core = self._core
        if core.is_closed:
            return
        self._waited += LEAVING_S
        self.overstays = True
        is_starting = self._is_starting()
        if is_starting or self._was_starting:
            self._was_starting = is_starting
            self._again()
            return
        self._tell()
        core.link.close()

    def _is_starting(self) -> bool:
        """Whether a call has not been sent since its peer is starting, which has not taken too long."""
        session = self._core.session
        starting = {
            peer.name: peer.config.start_timeout_s for peer in session.peers() if peer.state in STARTING
        }
        limit = max(starting.values(), default=0.0)
        if self._waited >= limit or not any(_is_unsent(call) for call in self._core.owed()):
            return False
        session.exchange.tell(
            f"the input has ended; {', '.join(starting)} may take up to {limit:g} s to start, which is waited for"
        )
        return True

    def _tell(self) -> None:
        calls = [f"{call.method} {call.name}".strip() for call in self._core.owed()]
        if not calls:
            return
        session = self._core.session
        session.tap.record("mark", "inside", x={"left_unanswered": len(calls), "calls": calls[:MOST_NAMED]})
        more = f", and {len(calls) - MOST_NAMED} more" if len(calls) > MOST_NAMED else ""
        session.exchange.tell(
            f"left with {len(calls)} {'call' if len(calls) == 1 else 'calls'} unanswered: "
            f"{', '.join(calls[:MOST_NAMED])}{more}; the input had ended {self._waited:g} s before"
        )


def _is_unsent(call: Call) -> bool:
    return call.method != LISTEN and call.peer_id is None and (call.leg is None or call.leg.peer_id is None)
