"""A policy as data: modes, lists, overrides, rules, profiles.

Owns what can be said and what is said where nobody says anything. How text becomes a policy is `policyfile.py`'s,
what follows from one `decide.py`'s.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from gateway.policy.evidence import Model
from gateway.policy.scope import UNLIMITED, Scope
from gateway.protocol.canonical import canonical
from gateway.protocol.capabilities import CAPABILITIES

Verdict: TypeAlias = Literal["allow", "ask", "deny"]
Mode: TypeAlias = Literal["strict", "prompt", "permissive"]
Profile: TypeAlias = Literal["standard", "safe", "full-auto"]

ANY: Final = "*"


class Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One rule. It speaks of the calls that everything in it fits. Rules have no order."""

    verdict: Annotated[Verdict, Meta(description="What becomes of these calls.")]
    id: Annotated[str, Meta(description="What decisions call it. Default: its place, `rules[0]`.")] = ""
    extension: Annotated[str, Meta(description="The extension, exactly; `*` is any.")] = ANY
    capability: Annotated[
        str, Meta(description="The capability; `tool:NAME` is the calls of one tool; `*` is any.")
    ] = ANY
    method: Annotated[str, Meta(description="The host call; `*` is any.")] = ANY
    paths: Annotated[list[str] | None, Meta(description="Only calls about these paths.")] = None
    hosts: Annotated[list[str] | None, Meta(description="Only calls to these hosts.")] = None
    env: Annotated[list[str] | None, Meta(description="Only calls for these variables.")] = None
    always: Annotated[bool, Meta(description="Of `ask`: ask every time, whatever was remembered.")] = False
    why: Annotated[str, Meta(description="A sentence for whoever meets it.")] = ""

    @property
    def scope(self) -> Scope:
        """What it is limited to."""
        return Scope(paths=self.paths, hosts=self.hosts, env=self.env)


class Override(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What holds for one extension besides."""

    mode: Annotated[Mode | None, Meta(description="Its mode, instead of the general one.")] = None
    allow: Annotated[list[str], Meta(description="Capabilities that it has, without asking.")] = []
    deny: Annotated[list[str], Meta(description="Capabilities that it never has.")] = []
    scope: Annotated[Scope, Meta(description="Limits of everything that it may do.")] = UNLIMITED


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """A whole policy. The defaults are the ones that the extension system plan suggests."""

    profile: Profile = "standard"
    mode: Mode = "prompt"
    default_caps: tuple[str, ...] = ("read", "write", "http")
    deny_caps: tuple[str, ...] = ("exec", "env")
    max_memory_mb: int = 256
    """For whoever starts extensions; nothing is decided by it here."""
    scope: Scope = UNLIMITED
    extensions: dict[str, Override] = {}
    rules: tuple[Rule, ...] = ()
    model: Model = Model()

    @property
    def hash(self) -> str:
        """`sha256:` and the hex of the canonical JSON of all that it says."""
        return "sha256:" + hashlib.sha256(canonical(msgspec.to_builtins(self))).hexdigest()


PROFILES: Final[dict[Profile, Policy]] = {
    "standard": Policy(),
    "safe": Policy(profile="safe", mode="strict", default_caps=("read", "write"), deny_caps=("exec", "env")),
    "full-auto": Policy(profile="full-auto", mode="permissive", default_caps=CAPABILITIES, deny_caps=()),
}
"""What a profile begins with. `safe` never asks and lets files of the project be read and written alone; `full-auto`
never asks and lets everything happen that a manifest does not exclude."""


class Remembered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What a person has answered before about calls like this one."""

    verdict: Literal["allow", "deny", "none"]
    """`none`: the answer there was does not hold any more."""
    scope: Literal["session", "project", "always", ""] = ""
    id: str = ""
    stale: str = ""
    """Why it does not hold: `executable`, `manifest` or `expired`."""
