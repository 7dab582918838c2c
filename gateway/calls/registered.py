"""What an extension of the Pi dialect has registered, as the exchange keeps it of a peer.

Owns the way of a `register` payload into and out of what is said in MCP's words. What of it means what is left to
whoever needs it: `policy.manifest` reads the capabilities, `hooks` the events.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import Raw

from gateway.calls.pi.words import OFFER

if TYPE_CHECKING:
    from gateway.calls.pi.extras import Extras
    from gateway.policy.manifest import Declaration, ManifestError

_table = msgspec.json.Decoder(dict[str, Raw])


class Registered:
    """The payload of a peer's `register`, decoded once. The peer has another one once it has registered again."""

    def __init__(self, raw: bytes) -> None:
        """Read what was checked by whoever took it from the extension.

        Raises:
            msgspec.DecodeError: If it is no object.
        """
        self.raw = raw
        self.payload = msgspec.json.decode(raw, type=dict[str, Any])

    @cached_property
    def event_hooks(self) -> tuple[str, ...]:
        """The events that it has hooks for, in its own order."""
        found = self.payload.get("event_hooks")
        return tuple(map(str, cast(list[object], found))) if isinstance(found, list) else ()

    @cached_property
    def tool_names(self) -> list[str]:
        """The names of its tools."""
        return [str(each["name"]) for each in self._tables("tools") if "name" in each]

    def _tables(self, member: str) -> list[dict[str, Any]]:
        found = self.payload.get(member)
        items = cast(list[object], found) if isinstance(found, list) else []
        return [cast(dict[str, Any], each) for each in items if isinstance(each, dict)]

    @cached_property
    def flags(self) -> dict[str, Any]:
        """The flags that it has declared with what they are where nobody sets them; None where it does not say."""
        return {str(each["name"]): each.get("default") for each in self._tables("flags") if "name" in each}

    @cached_property
    def commands(self) -> tuple[str, ...]:
        """The names of its commands."""
        return tuple(str(each.get("name", "")) for each in self._tables("slash_commands"))

    @cached_property
    def extras(self) -> Extras:
        """What it has declared beside tools, commands and hooks."""
        # Here, as below.
        from gateway.calls.pi.extras import read_extras

        return read_extras(self.payload)

    @cached_property
    def _declared(self) -> tuple[Declaration, ManifestError | None]:
        # Here, since who has no Pi extension needs no policy.
        from gateway.policy.manifest import declaration

        return declaration(self.payload)

    @property
    def declaration(self) -> Declaration:
        """The capabilities that it has declared."""
        return self._declared[0]

    @property
    def manifest_error(self) -> ManifestError | None:
        """What is wrong with its manifest, if anything is."""
        return self._declared[1]


def split(facts: bytes) -> tuple[bytes, Registered | None]:
    """Return an extension's `initialize` result without what it has registered, and that.

    Raises:
        msgspec.DecodeError: If the result is of another shape.
    """
    found, capabilities, experimental = _opened(facts)
    offer = experimental.pop(OFFER, None)
    if offer is None:
        return facts, None
    if experimental:
        capabilities["experimental"] = Raw(msgspec.json.encode(experimental))
    else:
        del capabilities["experimental"]
    found["capabilities"] = Raw(msgspec.json.encode(capabilities))
    return msgspec.json.encode(found), Registered(bytes(offer))


def joined(facts: bytes, payload: bytes) -> bytes:
    """Return an `initialize` result that holds what was registered, the other way of `split`.

    Raises:
        msgspec.DecodeError: If the result is of another shape.
    """
    found, capabilities, experimental = _opened(facts)
    experimental[OFFER] = Raw(payload)
    capabilities["experimental"] = Raw(msgspec.json.encode(experimental))
    found["capabilities"] = Raw(msgspec.json.encode(capabilities))
    return msgspec.json.encode(found)


def _opened(facts: bytes) -> tuple[dict[str, Raw], dict[str, Raw], dict[str, Raw]]:
    """Return the members of an `initialize` result, of its capabilities, and of those that are experimental."""
    found = _table.decode(facts)
    capabilities = _table.decode(found.get("capabilities", b"{}"))
    return found, capabilities, _table.decode(capabilities.get("experimental", b"{}"))
