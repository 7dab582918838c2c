"""mcpsnoop's session log: JSONL, a line an envelope, with the message in `raw` and a line of stderr in `text`.

Owns its directions. A log may hold several servers, each under its label.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec
from msgspec import Raw

from recordings.header import Header
from recordings.importers.base import Imported, Source, decoded, moment
from recordings.importers.conversation import told
from recordings.importers.messages import Said


class _Meta(msgspec.Struct, gc=False):
    command: list[str] | None = None


class _Envelope(msgspec.Struct, gc=False):
    direction: Literal["c2s", "s2c", "stderr", "meta"]
    seq: int = 0
    session: str = msgspec.field(name="session_id", default="")
    label: str = msgspec.field(name="server_label", default="")
    ts: str = ""
    transport: str = ""
    connection: str = msgspec.field(name="conn_id", default="")
    raw: Raw = Raw(b"")
    text: str = ""
    version: str = msgspec.field(name="mcp_protocol_version", default="")
    truncated: bool = False
    redacted: bool = False


def read(source: Source) -> Imported:
    """Read a session log of mcpsnoop. Raises `ForeignFormatError`."""
    envelopes = [decoded(source, _Envelope, data=line, line=number) for number, line in source.lines()]
    if not envelopes:
        raise source.bad("it is empty")
    lacks: list[str] = []
    names = _names(envelopes)
    times = [moment(each.ts) for each in envelopes]
    known = [at for at in times if at is not None]
    started = min(known) if len(known) == len(envelopes) else None
    order = sorted(range(len(envelopes)), key=lambda place: _order(envelopes[place], times[place], started))
    said: list[Said] = []
    stderr = 0
    for place in order:
        each, at = envelopes[place], times[place]
        if each.direction in ("c2s", "s2c") and (each.raw or each.text):
            said.append(
                Said(
                    side="core" if each.direction == "c2s" else "peer",
                    body=bytes(each.raw) or each.text.encode("utf-8", "surrogatepass"),
                    peer=names[each.session, each.label, each.connection],
                    at=at - started if at is not None and started is not None else 0,
                    version=each.version,
                )
            )
        stderr += each.direction == "stderr"
    if not said:
        raise source.bad("it holds no message", advice="a log of a session that ended at once is empty")
    lacks += _missing(envelopes, stderr)
    if started is None:
        lacks.append("times: not every line has one")
    transport = "http" if any(each.transport == "http" for each in envelopes) else "stdio"
    story = told(said, transport=transport, started=started)
    for each in envelopes:
        if each.direction == "meta" and each.raw:
            command = msgspec.json.decode(each.raw, type=_Meta).command
            facts = story.peers.get(names[each.session, each.label, each.connection])
            if facts is not None and command:
                facts.command = command[:1]
    header = Header(by="mcpsnoop", started=started or 0, core=story.core, peers=story.peers)
    return Imported(header, story.frames, lacks + story.lacks)


def _order(envelope: _Envelope, at: int | None, started: int | None) -> tuple[int, int]:
    return (at or 0, envelope.seq) if started is not None else (0, envelope.seq)


def _missing(envelopes: list[_Envelope], stderr: int) -> list[str]:
    lacks: list[str] = []
    if stderr:
        lacks.append(f"{stderr} lines of stderr, which were left out")
    truncated = sum(each.truncated for each in envelopes)
    if truncated:
        lacks.append(f"the ends of {truncated} messages that mcpsnoop had cut")
    redacted = sum(each.redacted for each in envelopes)
    if redacted:
        lacks.append(
            f"what mcpsnoop has redacted in {redacted} messages: its marks do not tell which secrets were equal"
        )
    if any(each.direction == "meta" for each in envelopes):
        lacks.append("the arguments of the server's command, as they may hold secrets")
    return lacks


def _names(envelopes: list[_Envelope]) -> dict[tuple[str, str, str], str]:
    """A peer's name for each connection of each session with each server."""
    names: dict[tuple[str, str, str], str] = {}
    taken: dict[str, int] = {}
    for each in envelopes:
        key = (each.session, each.label, each.connection)
        if key not in names and each.direction in ("c2s", "s2c"):
            plain = re.sub(r"[^A-Za-z0-9_-]+", "-", each.label).strip("-") or "server"
            taken[plain] = taken.get(plain, 0) + 1
            names[key] = plain if taken[plain] == 1 else f"{plain}-{taken[plain]}"
    for each in envelopes:
        key = (each.session, each.label, each.connection)
        if key not in names:
            names[key] = next((name for other, name in names.items() if other[:2] == key[:2]), "server")
    return names
