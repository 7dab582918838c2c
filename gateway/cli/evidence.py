"""The hash that joins a recorded request to the extension log, as commands print it.

It is made of what was recorded when somebody reads it: no call waits for it, and no line holds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recordings.frame import Frame


def evidence(frame: Frame, body: bytes) -> str | None:
    """The `params_hash` of a request with this body, sha256 hex; None where there is none."""
    if frame.kind != "request" or not body:
        return None
    if frame.params_hash is not None:
        return frame.params_hash
    import msgspec

    from gateway.protocol.canonical import NotCanonicalError, params_hash

    try:
        params = msgspec.json.decode(body, type=dict[str, msgspec.Raw]).get("params", b"")
        return params_hash(frame.method or "", bytes(params))
    except (msgspec.DecodeError, UnicodeDecodeError, NotCanonicalError, RecursionError):
        return None
