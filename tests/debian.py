"""Database servers that are in no Python package: Debian's own, unpacked into `.tools/servers` without installing them.

`make tools` brings them where the system has none, as any user, by `apt-get download`; where that does not go (no apt,
no network), `.tools/servers/NAME/missing` says why, and the tests that need the server are skipped with these words.
Starting one is `tests/adapters/database/servers.py`'s.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

import msgspec

FOLDER: Final = Path(__file__).parents[1] / ".tools" / "servers"
ENOUGH_S: Final = 240
_TOO_LARGE: Final = "libllvm"
"""What compiles statements for PostgreSQL, which its tests switch off."""
_PLACES: Final = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/libexec"


class Package(msgspec.Struct, frozen=True):
    """One server: Debian's packages of it, and its program, below the system's root or the one it is unpacked to."""

    name: str
    packages: tuple[str, ...]
    program: str

    @property
    def root(self) -> Path:
        """Where it is unpacked."""
        return FOLDER / self.name

    def found(self) -> Path | None:
        """Its program: the system's, else the unpacked one; None where there is neither."""
        for base in (Path("/"), self.root):
            for path in sorted(base.glob(self.program), reverse=True):
                return path
        named = shutil.which(Path(self.program).name, path=_PLACES)
        return Path(named) if named else None

    def missing(self) -> str:
        """Why there is none."""
        said = self.root / "missing"
        why = said.read_text() if said.exists() else "run `make tools`"
        return f"no {Path(self.program).name} here: {why}"


MARIADB: Final = Package("mariadb", ("mariadb-server-core", "mariadb-client-core"), "usr/sbin/mariadbd")
POSTGRES: Final = Package("postgres", ("postgresql",), "usr/lib/postgresql/*/bin/postgres")


def bring(wanted: Package) -> bool:
    """Have the server, from Debian if need be; whether there was anything to do. A file says why there is none."""
    if wanted.found() is not None:
        return False
    shutil.rmtree(wanted.root, ignore_errors=True)
    wanted.root.mkdir(parents=True)
    try:
        _unpack(wanted)
    except (OSError, subprocess.SubprocessError) as fault:
        shutil.rmtree(wanted.root, ignore_errors=True)
        wanted.root.mkdir(parents=True)
        said = getattr(fault, "stderr", None) or str(fault)
        lines = [line for line in str(said).splitlines() if line.strip()]
        (wanted.root / "missing").write_text(f"apt-get brought no {wanted.packages[0]} ({lines[-1].strip()})")
    return True


def _unpack(wanted: Package) -> None:
    """Download it and what of its dependencies the system has not, and unpack all of it below its root."""
    names: list[str] = []
    with tempfile.TemporaryDirectory(dir=wanted.root) as place:
        # Lists of our own if the system's are not there: writing those is root's.
        own = [f"-oDir::State::lists={place}/lists", f"-oDir::Cache={place}/cache"]
        for options in ([], own):
            if options:
                os.makedirs(f"{place}/lists/partial")
                os.makedirs(f"{place}/cache/archives/partial")
                _apt([*options, "-oAcquire::Retries=1", "-oAcquire::http::Timeout=15", "update"], place)
            try:
                names = _needed(wanted, options, place)
                _apt([*options, "download", *names], place)
            except subprocess.CalledProcessError:
                if options:
                    raise
            else:
                break
        for archive in sorted(Path(place).glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", str(archive), str(wanted.root)], check=True, timeout=ENOUGH_S)
    if wanted.found() is None:
        raise FileNotFoundError(f"{wanted.program} is in none of {', '.join(names)}")


def _needed(wanted: Package, options: list[str], place: str) -> list[str]:
    """The packages that the system has not, by apt's own plan, which nothing is done of."""
    plan = _apt([*options, "-s", "install", "--no-install-recommends", *wanted.packages], place)
    names: list[str] = re.findall(r"^Inst (\S+)", plan, re.MULTILINE)
    return [name for name in names if not name.startswith(_TOO_LARGE)]


def _apt(words: list[str], place: str) -> str:
    # It would drop to a user of its own, who may not write into the clone.
    command = ["apt-get", "-q", "-oDebug::NoLocking=1", "-oAPT::Sandbox::User=", *words]
    done = subprocess.run(
        command,
        cwd=place,
        env={**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"},
        capture_output=True,
        text=True,
        timeout=ENOUGH_S,
        check=True,
    )
    return done.stdout
