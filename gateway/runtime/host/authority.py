"""What live decisions about host calls are made of: the policy, the roots, remembered answers, facts about programs.

Owns what the world adds to the facts of a call. Decides nothing. Source of the signals: the extension system plan;
each is measured here or read out of what was declared, none is believed because the extension says so, and what
nobody can measure (whether it is signed) is not counted.
"""

from __future__ import annotations

import os
import secrets
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec

from gateway.calls.host_call import Hosted
from gateway.config.mistakes import ConfigError, Mistake, Report
from gateway.config.model import Config
from gateway.config.places import grants_file, project_dir
from gateway.policy.decide import Decision, Facts
from gateway.policy.evidence import WHOLE
from gateway.policy.grants import Grant, Grants, grant_of
from gateway.policy.paths import Root, Roots, named_roots
from gateway.policy.policyfile import read_policy
from gateway.policy.rules import Rules
from gateway.policy.scope import pattern_fault
from gateway.runtime.host.grant_file import GrantFile
from gateway.runtime.host.identity import Program, Programs

if TYPE_CHECKING:
    from gateway.policy.manifest import Declaration
    from gateway.policy.rules import Signals

PER_MB: Final = WHOLE // 10
"""Thousandths of `size_mb` for each MiB: 10 MiB and more are the whole signal."""


def roots_of(config: Config) -> list[Root]:
    """Return the folders that host calls may be about: those of the configuration, or where it lies."""
    paths = dict.fromkeys(map(os.path.realpath, config.extensions.roots or [str(project_dir(config))]))
    return named_roots(list(paths), folds_case=sys.platform == "darwin")


class Authorities:
    """What is the same for all sessions of a gateway."""

    def __init__(self, config: Config) -> None:
        """Read the policy, and whether `private_hosts` holds patterns.

        Raises:
            ConfigError: With everything that is wrong with either.
        """
        self._source = config.source or "tieline"
        report = Report(file=self._source)
        for at, text in enumerate(config.extensions.private_hosts):
            if (fault := pattern_fault("hosts", text)) is not None:
                report.mistake(("extensions", "private_hosts", at), fault)
        policy, self.notes = read_policy(config.extensions.policy, report)
        if report.mistakes:
            raise ConfigError(report.mistakes)
        self.rules = Rules(policy)
        self.folders = roots_of(config)
        self.roots = Roots(self.folders)
        self.file = GrantFile(grants_file(config))
        self.programs = Programs()

    def need_folders(self) -> None:
        """See that the folders are there.

        Raises:
            ConfigError: If one is not.
        """
        missing = [
            Mistake(self._source, None, f"extensions.roots[{at}]", f"is `{root.path}`, which is no folder")
            for at, root in enumerate(self.folders)
            if not os.path.isdir(root.path)
        ]
        if missing:
            raise ConfigError(missing)

    def of_session(self) -> SessionAuthority:
        """Return the authority of a new session."""
        return SessionAuthority(self, secrets.token_hex(8))


class SessionAuthority:
    """The authority of one session. Implements `calls.ports.Authority`."""

    def __init__(self, whole: Authorities, session: str) -> None:
        self._whole = whole
        self._session = session
        self._own: list[Grant] = []
        """Answers for this session alone."""

    @property
    def rules(self) -> Rules:
        """The policy."""
        return self._whole.rules

    @property
    def roots(self) -> Roots:
        """The folders."""
        return self._whole.roots

    def known(self, hosted: Hosted, facts: Facts) -> tuple[Facts, str]:
        """Return the facts with what is known about program, session and answers.

        Raises:
            OSError, ConfigError: If a file cannot be read, or is wrong.
        """
        config = hosted.peer.config
        program = self._whole.programs.of(config.command, config.url or config.unix or "", config.cwd)
        registered = hosted.peer.registered
        project = self._whole.folders[0].path
        file = self._whole.file.read()
        grants = Grants((*file.grants, *self._own)) if self._own else file
        remembered = grants.remembered(
            facts.extension, facts.need, now=datetime.now(UTC), executable=program.executable,
            manifest=facts.manifest, session=self._session, project=project, folds_case=facts.folds_case,
        )  # fmt: skip
        known = msgspec.structs.replace(
            facts,
            executable=program.executable,
            project=project,
            session=self._session,
            remembered=remembered,
            signals=signals(registered.declaration if registered is not None else None, program),
        )
        return known, grants.hash

    def keep(self, decision: Decision) -> None:
        """Remember an answer.

        Raises:
            OSError, ConfigError: If it cannot be written.
        """
        grant = grant_of(decision, now=datetime.now(UTC))
        if grant is None:
            return
        if grant.scope == "session":
            self._own = [each for each in self._own if each.key != grant.key]
            self._own.append(grant)
        else:
            self._whole.file.keep(grant)

    def keeps_open(self, hosted: Hosted) -> bool:
        """Never: a question that nobody waits for is taken back."""
        return False

    def joins(self, hosted: Hosted) -> bool:
        """Whoever comes too late for an answer asks again."""
        return False


def signals(declaration: Declaration | None, program: Program) -> Signals:
    """Return the evidence about an extension, in thousandths: what it declares that it wants, and how big it is."""
    manifest = declaration.manifest if declaration is not None else None
    wanted = {entry.capability for entry in manifest.entries} if manifest is not None else set[str]()
    found = {
        "uses_fs": WHOLE if wanted & {"read", "write"} else 0,
        "uses_exec": WHOLE if "exec" in wanted else 0,
        "size_mb": min(WHOLE, program.size_bytes * PER_MB // (1024 * 1024)),
    }
    return tuple((name, value) for name, value in found.items() if value)
