"""The header of a recording, `recording.json`: what was recorded, of whom, in which format.

Owns the shape of that file and its reading. Fields that this version does not know are left alone.
"""

from __future__ import annotations

from typing import Any

import msgspec

from recordings.errors import NotARecordingError
from recordings.frame import FORMAT


class PeerFacts(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Who sat in one seat of the peer table, and what was spoken."""

    dialect: str = ""
    """`mcp` or `pi`."""
    version: str = ""
    """The protocol version that was agreed on."""
    transport: str = ""
    software: str = ""
    """Name and version as the peer gave them."""
    command: list[str] = []
    """The command line with secrets taken out, or empty."""


class Parent(msgspec.Struct, kw_only=True):
    """The recording that this one was forked from, and the last frame they share."""

    session: str
    seq: int


class Origin(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Where a recording was imported from, and in sentences what that did not hold."""

    format: str
    file: str = ""
    lacks: list[str] = []


class Header(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What `recording.json` holds. `started` is nanoseconds since 1970; `seed` is the session's."""

    format: int = 0
    session: str = ""
    by: str = ""
    """The program and version that wrote it."""
    started: int = 0
    seed: int | str | None = None
    core: PeerFacts | None = None
    peers: dict[str, PeerFacts] = {}
    profiles: dict[str, str] = {}
    """Name of each matching or redaction profile, and its version."""
    settings: dict[str, Any] = {}
    """What of the gateway's configuration decided what the core saw; its shape is the gateway's business."""
    parent: Parent | None = None
    imported: Origin | None = None
    incomplete: bool = False
    """Frames are missing because the disk would not take them and the session was served all the same."""


def encode_header(header: Header) -> bytes:
    """`recording.json`: indented, with the format number of this version."""
    header = msgspec.structs.replace(header, format=FORMAT)
    return msgspec.json.format(msgspec.json.encode(header), indent=2) + b"\n"


def decode_header(data: bytes) -> Header:
    """Read `recording.json`, its format first. Raises `NotARecordingError` or `NewerFormatError`."""
    # Who writes a recording reads no header.
    from recordings.migrate import check_format

    try:
        fields = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        found: object = msgspec.json.decode(fields["format"])
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, RecursionError):
        raise NotARecordingError("recording.json is not the header of a recording") from None
    check_format(found)
    try:
        return msgspec.json.decode(data, type=Header)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotARecordingError(f"recording.json is not a header of format {found}: {error}") from None
