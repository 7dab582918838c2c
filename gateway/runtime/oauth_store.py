"""Where the tokens of upstream servers are kept: one file a server, which only its owner can read.

Owns the files and the hint when an access token runs out, which the protocol's own storage does not remember.
Knows nothing of flows.
"""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import TypeAlias, TypeVar

import msgspec
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import BaseModel

from gateway.config.places import state_dir
from gateway.runtime.host.regular import replace_private

_Record: TypeAlias = msgspec.Raw | msgspec.UnsetType
_Model = TypeVar("_Model", bound=BaseModel)


class _Kept(msgspec.Struct, omit_defaults=True):
    """What a file holds. The records are the protocol library's own, as it wrote them."""

    server: str = ""
    tokens: _Record = msgspec.UNSET
    client: _Record = msgspec.UNSET
    issuer: _Record = msgspec.UNSET
    resource: _Record = msgspec.UNSET
    expires_at: float | None = None


def token_file(server_url: str, directory: Path | None = None) -> Path:
    """Return the file of one server; its name tells nobody which server that is."""
    name = hashlib.sha256(server_url.encode()).hexdigest()[:32]
    return (directory or state_dir() / "oauth") / f"{name}.json"


class TokenFile:
    """Tokens and client registration of one server, as the protocol library's provider wants them."""

    def __init__(self, path: Path, server_url: str, client: OAuthClientInformationFull | None = None) -> None:
        """Keep in `path`; `client` is a registration that was configured and overrules a stored one."""
        self._path = path
        self._server = server_url
        self._configured = client

    @property
    def expires_at(self) -> float | None:
        """When the stored access token runs out, in seconds of the wall clock; None: not known."""
        return self._load().expires_at

    async def get_tokens(self) -> OAuthToken | None:
        """Return the stored tokens."""
        return _read(self._load().tokens, OAuthToken)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store tokens."""
        kept = self._load()
        kept.tokens = _record(tokens)
        kept.expires_at = None if tokens.expires_in is None else time.time() + tokens.expires_in
        self._save(kept)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the configured registration, else the stored one."""
        if self._configured is not None:
            return self._configured
        return _read(self._load().client, OAuthClientInformationFull)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store a registration. Tokens of an earlier one are of no use and go."""
        self._save(_Kept(client=_record(client_info)))

    def keep_discovery(
        self, issuer: OAuthMetadata | None, resource: ProtectedResourceMetadata | None
    ) -> None:
        """Store where the tokens are from: a refresh must go there, after a restart too."""
        kept = self._load()
        kept.issuer = _record(issuer)
        kept.resource = _record(resource)
        self._save(kept)

    def discovery(self) -> tuple[OAuthMetadata | None, ProtectedResourceMetadata | None]:
        """Return what `keep_discovery` stored."""
        kept = self._load()
        return _read(kept.issuer, OAuthMetadata), _read(kept.resource, ProtectedResourceMetadata)

    def registered_port(self) -> int | None:
        """Return the port of the redirect that was registered, so that the same one can be used again."""
        client = _read(self._load().client, OAuthClientInformationFull)
        return client.redirect_uris[0].port if client is not None and client.redirect_uris else None

    def _load(self) -> _Kept:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_Kept)
        except (FileNotFoundError, msgspec.DecodeError):
            return _Kept()

    def _save(self, kept: _Kept) -> None:
        """Replace the file whole: a reader sees the old tokens or the new ones."""
        kept.server = self._server
        replace_private(self._path, msgspec.json.encode(kept))


def _record(model: BaseModel | None) -> _Record:
    if model is None:
        return msgspec.UNSET
    return msgspec.Raw(model.model_dump_json(exclude_none=True).encode())


def _read(record: _Record, model: type[_Model]) -> _Model | None:
    return None if record is msgspec.UNSET else model.model_validate_json(bytes(record))
