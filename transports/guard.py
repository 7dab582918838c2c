"""Who may talk to a listener at all: the Host, Origin and token rules of websocket and HTTP listeners.

Pure: headers in, a verdict out. Answers nothing, counts failures only when told to, and is asked before any
upgrade. The Host rule stops DNS rebinding, the Origin rule stops web pages, the token says who it is.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

FAILURES_A_MINUTE: Final = 20
WRONG_TOKEN_S: Final = 0.25
"""How long whoever has guessed a token waits for the answer."""
_ADDRESSES: Final = 1024
_PORT = re.compile(r":[0-9]+$")


class Verdict(NamedTuple):
    """What to answer: `status` 200 means go on; another one is the HTTP status to refuse with."""

    status: int
    reason: str
    """A sentence for a person, without anything that came from the other side."""
    principal: str | None = None
    delay_s: float = 0.0
    """How long to wait with the answer. Nobody else waits with it."""

    @property
    def allowed(self) -> bool:
        """Whether the connection may go on."""
        return self.status == 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """The rules of one listener."""

    hosts: frozenset[str] | None
    """The exact values of `Host` that are taken, lower-case. None: any (a unix socket has no name)."""
    origins: frozenset[str] = frozenset()
    """The exact values of `Origin` that are taken. No `Origin` is taken: a web page cannot leave it out."""
    tokens: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Principal to bearer token. Empty: no token is asked for."""
    wrong_token_s: float = WRONG_TOKEN_S
    """How long the answer to a wrong token is held back. To none it is not: clients ask so what is wanted."""

    def judge(self, headers: Iterable[tuple[str, str]]) -> Verdict:
        """Judge by the headers: 403 for a foreign Host or Origin, 401 for no token or a wrong one."""
        hosts: list[str] = []
        origins: list[str] = []
        credentials: list[str] = []
        wanted = {"host": hosts, "origin": origins, "authorization": credentials}
        for name, value in headers:
            values = wanted.get(name.lower())
            if values is not None:
                values.append(value.strip())
        if self.hosts is not None and (len(hosts) != 1 or hosts[0].lower() not in self.hosts):
            return Verdict(403, "This Host is not served here.")
        if origins and (len(origins) != 1 or origins[0] not in self.origins):
            return Verdict(403, "This Origin is not allowed.")
        if not self.tokens:
            return Verdict(200, "")
        if not credentials:
            return Verdict(401, "A bearer token is needed.")
        principal = self._principal(credentials[0]) if len(credentials) == 1 else None
        if principal is None:
            return Verdict(401, "The bearer token is not valid.", delay_s=self.wrong_token_s)
        return Verdict(200, "", principal)

    def _principal(self, credential: str) -> str | None:
        scheme, _, token = credential.partition(" ")
        given = token.strip().encode("utf-8", "surrogateescape")
        found = None
        # Every token is compared, so that the time tells nothing about which one was nearly right.
        for principal, expected in self.tokens.items():
            if hmac.compare_digest(given, expected.encode()):
                found = principal
        return found if scheme.lower() == "bearer" and given else None


def loopback_hosts(port: int, extra: Iterable[str] = ()) -> frozenset[str]:
    """The `Host` values of a loopback listener on `port`, and those of `extra` (with their port) besides."""
    names = ("127.0.0.1", "localhost", "[::1]")
    hosts = {f"{name}:{port}" for name in names} | {host.lower() for host in extra}
    if port in (80, 443):
        hosts.update(names)
    return frozenset(hosts)


def named_hosts(names: Iterable[str], port: int) -> frozenset[str]:
    """The `Host` values of a listener on `port` that is reached under `names`.

    A name that has no port stands for itself (a proxy, a usual port) and for itself with the listener's.
    """
    hosts = {name.lower() for name in names}
    return frozenset(hosts | {f"{name}:{port}" for name in hosts if not _PORT.search(name)})


def is_loopback(host: str) -> bool:
    """Whether listening at `host` reaches this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Failures:
    """Counts refusals by address, in fixed windows. Bounded: forgets the address that failed longest ago.

    A valid request is never held up by it: it only turns a further 401 or 403 into a 429, which is cheaper to
    answer and to log.
    """

    __slots__ = ("_counts", "_limit", "_window_s")

    def __init__(self, limit: int = FAILURES_A_MINUTE, window_s: float = 60.0) -> None:
        self._limit = limit
        self._window_s = window_s
        self._counts: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def count(self, address: str, now_s: float, verdict: Verdict) -> Verdict:
        """Note a refusal at `now_s` (monotonic); give the verdict to answer with."""
        if verdict.allowed:
            return verdict
        began, failures = self._counts.pop(address, (now_s, 0))
        if now_s - began >= self._window_s:
            began, failures = now_s, 0
        self._counts[address] = (began, failures + 1)
        if len(self._counts) > _ADDRESSES:
            self._counts.popitem(last=False)
        if failures >= self._limit:
            return Verdict(429, "Too many refused requests from this address.")
        return verdict
