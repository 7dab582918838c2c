"""A real small disk for a gateway's recordings: a tmpfs in a mount namespace of its own.

Owns the namespace, which needs no root where user namespaces are allowed, and takes the mount with it whatever
becomes of the test. What is on the disk is looked at through `/proc`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MIB = 1024 * 1024
UNSHARE = ("unshare", "--user", "--map-root-user", "--mount")
MOUNT = 'mount -t tmpfs -o "size=$1" tmpfs "$2" && echo mounted && exec cat'


def disks_can_be_made() -> bool:
    """Whether this system lets us mount a tmpfs in a namespace of our own."""
    if not all(shutil.which(program) for program in ("unshare", "nsenter", "mount")):
        return False
    script = 'mount -t tmpfs tmpfs "$0"'
    done = subprocess.run([*UNSHARE, "sh", "-c", script, "/mnt"], capture_output=True, check=False)
    return done.returncode == 0


@dataclass(frozen=True)
class Disk:
    """The disk, and how programs come to see it."""

    holder: int
    place: Path

    @property
    def enter(self) -> Sequence[str]:
        """What goes before a command that is to see the disk."""
        return ("nsenter", "-t", str(self.holder), "--user", "--mount", "--preserve-credentials", "--wd=.")

    @property
    def path(self) -> Path:
        """Where we see it ourselves."""
        return Path(f"/proc/{self.holder}/root{self.place}")

    def fill(self) -> None:
        """Leave no room: a file takes all that there is."""
        with (self.path / "ballast").open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(MIB // 4))

    def empty(self) -> None:
        """Make room again."""
        (self.path / "ballast").unlink()

    def remount(self, how: str) -> None:
        """Make it read-only (`ro`) or writable (`rw`)."""
        command = [*self.enter, "mount", "-o", f"remount,{how}", str(self.place)]
        subprocess.run(command, check=True, capture_output=True)


@contextmanager
def small_disk(place: Path, size: int) -> Generator[Disk]:
    """Have a disk of `size` bytes at `place`, for those alone who enter."""
    place.mkdir(mode=0o700)
    command = [*UNSHARE, "sh", "-c", MOUNT, "sh", str(size), str(place)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"mounted\n"
            yield Disk(holder.pid, Path(os.path.realpath(place)))
        finally:
            assert holder.stdin is not None
            holder.stdin.close()
            holder.wait(10)
