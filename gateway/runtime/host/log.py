"""The host call `log`: an entry of an extension for the extension log.

Owns that an entry has the log's form. It is written from the frame of the call, as every other line is, so that the log
of a recording is the same as that of the session.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from gateway.calls.host.log_calls import MOST_ENTRY, OURS, LogCall
from gateway.runtime.host.base import Emit, Work, bad_params

SCHEMA: Final = "pi.ext.log.v1"


class Log:
    """Serves `log`."""

    async def serve(self, work: Work, emit: Emit) -> dict[str, Any]:
        """Take an entry; say in which form it is kept."""
        call = work.granted(LogCall)
        if call.event.startswith(OURS):
            begins = call.event.partition(".")[0]
            raise bad_params(f"events that begin with `{begins}.` are the gateway's own: choose another name")
        if call.data is not None and len(msgspec.json.encode(call.data)) > MOST_ENTRY:
            raise bad_params(f"`data` is longer than {MOST_ENTRY} bytes", errno="EFBIG")
        return {"ok": True, "schema": SCHEMA, "event": call.event}
