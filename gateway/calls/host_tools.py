"""A tool of another peer, called by an extension: the host call `tool` with a name that is not built in.

Owns finding the owner, the call to it, and that calls which lead to calls come to an end. Whether the extension may is
decided before, under the capability `tool`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
from msgspec import Raw

from gateway.calls.call import Call, Reply
from gateway.calls.faults import bad_host_call, host_call_failed
from gateway.calls.pi import to_pi
from gateway.calls.request import held_back
from gateway.calls.steps import Flow, run
from gateway.protocol.errors import Fault

if TYPE_CHECKING:
    from gateway.calls.host_call import Hosted

DEEPEST: Final = 8
"""How many calls may lead from one to the next before none does any more."""

_encode = msgspec.json.Encoder().encode


class PeerTool:
    """One call of a tool of another peer. Implements `calls.ports.Served`."""

    def __init__(self, hosted: Hosted, depths: dict[Call, int]) -> None:
        """`depths` says of calls that were made here how many led to them."""
        self._hosted = hosted
        self._session = hosted.session
        self._depths = depths
        self._call: Call | None = None
        self._is_over = False
        self.name = str(hosted.params.get("name", ""))
        given = hosted.params.get("input", {})
        if not isinstance(given, dict):
            self._end(Reply(fault=bad_host_call("bad_params", "`input` must be an object")))
            return
        self._input = cast(dict[str, Any], given)
        self._depth = depths.get(hosted.call, 0) + 1 if hosted.call is not None else 1
        if self._depth > DEEPEST:
            why = f"{DEEPEST} calls have led to this one, each made in the course of another"
            self._end(Reply(fault=bad_host_call("too_deep", why)))
            return
        run(self._session, self._find(), self._found, self._failed)

    def credit(self, count: int) -> None:
        """Nothing: the output is one whole."""

    def hold(self, *, full: bool) -> None:
        """Nothing, as well."""

    def cancel(self) -> None:
        """Do not wait for the tool any more."""
        self._is_over = True
        call, self._call = self._call, None
        if call is None:
            return
        self._depths.pop(call, None)
        if call.peer is not None:
            call.peer.give_up(call, reason="the extension does not wait for it any more")
            call.peer.left(call)

    def _find(self) -> Flow:
        """Fetch what is not known of the lists."""
        session = self._session
        core = self._hosted.call.core if self._hosted.call is not None else None
        client = core.client if core is not None and core.client is not None else self._hosted.peer.client
        seats = [
            seat for name, seat in session.seats.items() if not session.catalog.knows(name, "tools/list")
        ]
        if seats:
            yield from session.flows.fetch("tools/list", [seat.for_client(session, client) for seat in seats])
        return client

    def _found(self, client: Any) -> None:
        if self._is_over:
            return
        session = self._session
        owner = session.catalog.find("tools/list", self.name)
        if owner is None:
            why = f"no peer offers the tool {self.name[:64]!r}"
            self._end(Reply(fault=bad_host_call("unknown_name", why)))
            return
        peer, original = owner
        if peer == self._hosted.peer.name:
            self._end(
                Reply(fault=bad_host_call("own_tool", f"{self.name[:64]!r} is the extension's own tool"))
            )
        elif session.catalog.is_held(peer, original):
            self._end(Reply(fault=held_back(peer, self.name)))
        else:
            params = _encode({"name": original, "arguments": self._input})
            self._call = call = Call(
                session, "tools/call", params, name=original, then=self._answered, parent=self._hosted.seq
            )
            self._depths[call] = self._depth
            session.submit(call, session.seats[peer].for_client(session, client))

    def _answered(self, reply: Reply) -> None:
        if self._call is not None:
            self._depths.pop(self._call, None)
            self._call = None
        if reply.fault is None and not reply.error:
            try:
                told = to_pi.tool_result("", reply.result)
            except msgspec.DecodeError as error:
                why = f"the result of {self.name[:64]!r} cannot be read: {error}"
                reply = Reply(fault=Fault(code="io", message=why, reason="bad_result", outcome="completed"))
            else:
                output = msgspec.json.decode(told.output, type=dict[str, Raw])
                if told.is_error:
                    output["is_error"] = Raw(b"true")
                reply = Reply(result=_encode(output))
        elif reply.error:
            reply = Reply(fault=to_pi.fault_of(reply.error))
        self._end(reply)

    def _failed(self, fault: Exception) -> None:
        self._end(Reply(fault=host_call_failed()))
        self._session.exchange.failed(fault)

    def _end(self, reply: Reply) -> None:
        if not self._is_over:
            self._is_over = True
            self._hosted.ended(reply)
