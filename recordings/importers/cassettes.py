"""HTTP cassettes with MCP in them: vcrpy's YAML, cassetter's YAML and TOML.

Owns the shapes of interactions and bodies. Which interactions are MCP, and what was said in them, is `http`'s business.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any, cast

from recordings.header import Header
from recordings.importers.base import Imported, Source, decoded, encoded, moment, text_member
from recordings.importers.conversation import told
from recordings.importers.http import Exchange, talk_of
from recordings.importers.yaml_core import load

NEWEST = 1


def read_vcrpy(source: Source) -> Imported:
    """Read a cassette of vcrpy, in YAML or JSON. It has no times; its order is that of the file."""
    is_json = source.data.lstrip()[:1] == b"{"
    document: Any = decoded(source, dict[str, Any]) if is_json else load(source)
    return _read(source, document, by="vcrpy")


def read_cassetter(source: Source) -> Imported:
    """Read a cassette of cassetter, in YAML or TOML. `recorded_at` orders what its file does not."""
    if looks_like_toml(source.data):
        try:
            document: Any = tomllib.loads(source.data.decode("utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as why:
            raise source.bad(str(why)) from None
    else:
        document = load(source)
    return _read(source, document, by="cassetter")


def looks_like_toml(data: bytes) -> bool:
    """Whether these are a TOML cassette's first bytes."""
    return b"[[interactions]]" in data[:4096]


def _read(source: Source, document: Any, *, by: str) -> Imported:
    if not isinstance(document, dict) or not isinstance(cast(Any, document).get("interactions"), list):
        raise source.bad("it has no list of `interactions`", advice="is it a cassette?")
    table = cast("dict[str, Any]", document)
    version = table.get("version", NEWEST)
    if version != NEWEST:
        raise source.bad(f"it is a cassette of version {version}; version {NEWEST} is known")
    exchanges = [_exchange(source, place, each) for place, each in enumerate(table["interactions"], 1)]
    if all(exchange.at is not None for exchange in exchanges):
        exchanges.sort(key=lambda exchange: exchange.at or 0)
    talk = talk_of(exchanges)
    if not talk.said:
        raise source.bad(f"none of its {len(exchanges)} interactions is MCP")
    story = told(talk.said, transport="http", started=talk.started)
    lacks = talk.lacks + story.lacks
    if talk.started is not None:
        lacks.append("how long anything took: the file has one time an interaction")
    header = Header(by=by, started=talk.started or 0, core=story.core, peers=story.peers)
    return Imported(header, story.frames, lacks)


def _exchange(source: Source, place: int, interaction: Any) -> Exchange:
    def bad(what: str) -> Exception:
        return source.bad(f"interaction {place} {what}")

    if not isinstance(interaction, dict):
        raise bad("is no mapping")
    table = cast("dict[str, Any]", interaction)
    request, response = table.get("request"), table.get("response")
    if not isinstance(request, dict) or not isinstance(response, dict):
        # A WebSocket or gRPC interaction of cassetter: no HTTP exchange, and counted as such.
        return Exchange(method="", url="")
    asked, answer = cast("dict[str, Any]", request), cast("dict[str, Any]", response)
    status: Any = answer.get("status", 0)
    if isinstance(status, dict):
        status = cast("dict[str, Any]", status).get("code", 0)
    try:
        return Exchange(
            method=text_member(asked, "method").upper(),
            url=text_member(asked, "uri"),
            asked=_body(asked),
            status=status if isinstance(status, int) else 0,
            said=_body(answer),
            request_headers=_headers(asked.get("headers")),
            response_headers=_headers(answer.get("headers")),
            at=moment(table.get("recorded_at")),
        )
    except (TypeError, ValueError) as why:
        raise bad(f"cannot be read: {why}") from None


def _headers(headers: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    if headers is not None and not isinstance(headers, dict):
        raise ValueError("its headers are no mapping")
    for name, value in cast("Mapping[str, Any]", headers or {}).items():
        values = cast("list[Any]", value) if isinstance(value, list) else [value]
        found[str(name).lower()] = str(values[0]) if values and values[0] is not None else ""
    return found


def _body(side: Mapping[str, Any]) -> bytes:
    """A body in any of its shapes: a text, `{string}`, `{type, content}`, or `body_type` beside `body_content`."""
    body: Any = side.get("body", side.get("body_content"))
    kind: Any = side.get("body_type")
    if isinstance(body, dict):
        table = cast("dict[str, Any]", body)
        if "string" in table or "base64_string" in table:
            body = table.get("string", table.get("base64_string"))
        elif "type" in table:
            kind, body = table["type"], table.get("content")
    if kind == "none" or body is None:
        return b""
    if isinstance(body, bytes):
        return body
    if isinstance(body, str):
        if kind in ("binary", "base64"):
            import base64

            return base64.b64decode(body)
        return body.encode("utf-8", "surrogatepass")
    return encoded(cast(object, body))
