"""OAuth towards an upstream HTTP server: what signs requests, and gets tokens when the server asks for them.

Owns the joining of the protocol library's provider with our token files, our redirect and our configuration,
and three things that it leaves open: calls do not wait for each other, a refresh is tried before a person is
bothered, and a failure leaves as a `TransportError`. Tokens go into HTTP headers only. Import it where a peer
needs it: it brings in the library.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Final

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.utils import extract_field_from_www_auth, extract_scope_from_www_auth, union_scopes
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from gateway.config.peer import OAuthConfig
from gateway.runtime.oauth_redirect import Prompt, Redirect, open_browser
from gateway.runtime.oauth_store import TokenFile, token_file
from transports.base import TransportError

COOL_DOWN_S: Final = 10.0
"""After a login that failed, further calls are refused this long instead of opening a browser each."""


def peer_auth(
    peer: str,
    url: str,
    config: OAuthConfig,
    *,
    prompt: Prompt = open_browser,
    learned: Callable[[str], None] | None = None,
    directory: Path | None = None,
) -> PeerAuth:
    """Return what goes into `HttpOptions.auth` for the peer at `url`.

    `prompt` shows somebody a URL; `learned` is told each new secret, for the redactor; `directory` overrules
    where tokens are kept. Nothing is asked before the first request.

    Raises:
        TransportError: (`refused`) the callback port is taken, or the metadata URL is no https URL.
    """
    store = TokenFile(token_file(url, directory), url, _configured(config))
    redirect: Redirect | None = None
    try:
        redirect = Redirect(config.callback_port, store.registered_port())
        return PeerAuth(peer, url, config, store, redirect, prompt, learned or _forget)
    except (OSError, ValueError) as error:
        if redirect is not None:
            redirect.close()
        raise TransportError("refused", f"OAuth for peer {peer} cannot be set up: {error}") from error


class PeerAuth(OAuthClientProvider):
    """Signs requests with a bearer token; answers 401 and `insufficient_scope` by getting a better one."""

    def __init__(
        self,
        peer: str,
        url: str,
        config: OAuthConfig,
        store: TokenFile,
        redirect: Redirect,
        prompt: Prompt,
        learned: Callable[[str], None],
    ) -> None:
        """See `peer_auth`."""
        super().__init__(
            server_url=url,
            client_metadata=OAuthClientMetadata(
                client_name="Tieline",
                redirect_uris=[AnyUrl(redirect.uri)],
                scope=" ".join(config.scopes) or None,
            ),
            storage=store,
            redirect_handler=self._send_away,
            callback_handler=redirect.result,
            client_metadata_url=config.client_metadata_url,
        )
        self._peer = peer
        self._config = config
        self._store = store
        self._redirect = redirect
        self._prompt = prompt
        self._learned = learned
        self._challenged: str | None = None
        self._failure: tuple[float, TransportError] | None = None

    def close(self) -> None:
        """Give the callback port back."""
        self._redirect.close()

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Drive one request; the base class follows redirects of the flow's own requests.

        Raises:
            TransportError: (`denied`) no token could be had.
        """
        flow = super().async_auth_flow(request)
        try:
            outgoing = await anext(flow)
            while True:
                response = yield outgoing
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        except (OAuthFlowError, ValueError) as error:
            raise self._failed(error) from error
        finally:
            await flow.aclose()

    async def _auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """The base class holds its lock over each request; with a good token none needs to wait for it."""
        refused: httpx2.Response | None = None
        used = ""
        if self._initialized and self.context.is_token_valid():
            self._add_auth_header(request)
            used = request.headers["Authorization"]
            refused = yield request
            if not _wants_token(refused):
                return
        if self._failure is not None and time.monotonic() < self._failure[0]:
            raise self._failure[1]
        if refused is not None and refused.status_code == 401 and self.context.can_refresh_token():
            self._expire(used)
        flow = super()._auth_flow(request)
        try:
            outgoing = await anext(flow)
            while True:
                if (
                    outgoing is request
                    and refused is not None
                    and request.headers.get("Authorization") == used
                ):
                    response, refused = (
                        refused,
                        None,
                    )  # it was sent with this token and refused: no second try
                else:
                    response = yield outgoing
                if outgoing is request and _wants_token(response):
                    self._challenged = extract_scope_from_www_auth(response)
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    async def _initialize(self) -> None:
        await super()._initialize()
        expires_at = self._store.expires_at
        if self.context.current_tokens is not None:
            self._tell(self.context.current_tokens)
            if expires_at is not None:
                self.context.token_expiry_time = expires_at
        issuer, resource = self._store.discovery()
        if issuer is not None and resource is not None:
            self.context.oauth_metadata = issuer
            self.context.protected_resource_metadata = resource
            self.context.auth_server_url = str(resource.authorization_servers[0])

    async def _perform_authorization(self) -> httpx2.Request:
        """Ask for the scopes that were configured, and with the method that the server knows."""
        if self._config.scopes:
            wanted = union_scopes(" ".join(self._config.scopes), self._challenged)
            self.context.client_metadata.scope = wanted
        client = self.context.client_info
        if client is not None and self._config.client_id is not None and client.client_secret is not None:
            metadata = self.context.oauth_metadata
            methods = metadata.token_endpoint_auth_methods_supported if metadata else None
            known = methods or ["client_secret_basic"]
            basic = "client_secret_basic" in known or "client_secret_post" not in known
            client.token_endpoint_auth_method = "client_secret_basic" if basic else "client_secret_post"
        return await super()._perform_authorization()

    async def _handle_token_response(self, response: httpx2.Response) -> None:
        await super()._handle_token_response(response)
        self._failure = None
        self._store.keep_discovery(self.context.oauth_metadata, self.context.protected_resource_metadata)
        if self.context.current_tokens is not None:
            self._tell(self.context.current_tokens)

    async def _handle_refresh_response(self, response: httpx2.Response) -> bool:
        done = await super()._handle_refresh_response(response)
        if done and self.context.current_tokens is not None:
            self._tell(self.context.current_tokens)
        return done

    async def _send_away(self, url: str) -> None:
        await self._redirect.listen()
        await self._prompt(self._peer, url)

    def _expire(self, used: str) -> None:
        """Have the flow refresh first, unless another call has done so since."""
        tokens = self.context.current_tokens
        if tokens is not None and used == f"Bearer {tokens.access_token}":
            self.context.token_expiry_time = 1.0

    def _tell(self, tokens: OAuthToken) -> None:
        for secret in (tokens.access_token, tokens.refresh_token):
            if secret:
                self._learned(secret)

    def _failed(self, error: Exception) -> TransportError:
        fault = TransportError(
            "denied",
            f"peer {self._peer} wants OAuth, and no token could be had: {str(error)[:300]}",
            {"oauth": type(error).__name__},
        )
        self._failure = (time.monotonic() + COOL_DOWN_S, fault)
        return fault


def _wants_token(response: httpx2.Response) -> bool:
    if response.status_code == 401:
        return True
    return (
        response.status_code == 403 and extract_field_from_www_auth(response, "error") == "insufficient_scope"
    )


def _configured(config: OAuthConfig) -> OAuthClientInformationFull | None:
    if config.client_id is None:
        return None
    return OAuthClientInformationFull(client_id=config.client_id, client_secret=config.client_secret)


def _forget(secret: str) -> None:
    """The secret is told to nobody."""
