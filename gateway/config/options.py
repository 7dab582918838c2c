"""What the command line says to `gateway.serve`: how to run, beside what the configuration says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from pathlib import Path


class ServeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of one run. Everything here wins over the configuration."""

    stdio: bool = False
    """Serve one core on stdin and stdout, whatever `listen` says."""
    ready_file: Path | None = None
    """Written at once, as one JSON object, when all listeners accept.

    `{"pid": …, "listeners": [{"kind": "http", "url": …}, …], "control": path}`
    """
    watch: bool = False
    """Re-read the configuration when its file changes, not only on SIGHUP."""
    config_path: Path | str | None = None
    """The file to re-read. None where there is none (`tieline record`): then there is no reload."""
    record_dir: Path | str | None = None
    """Directory that gets the recordings instead of `record.dir`."""
    is_one_recording: bool = False
    """Whether `record_dir` is to be the recording itself, of the one session of a stdio run."""
    is_transparent: bool = False
    """Whether the gateway stands before one peer as if it were not there: what that peer says on stderr is said
    on ours, and where it cannot be greeted, neither can the gateway."""
    discovers: bool = False
    """Look for extensions, whatever `extensions.discover` says."""
    has_ui: bool = False
    """Show extensions' requests on the terminal that the gateway was started from."""
    insecure_loopback: bool = False
    """Ask for no token on loopback listeners."""

    @property
    def can_reload(self) -> bool:
        """Whether there is anything to read again: a file, or extensions that may be others by now."""
        return self.config_path is not None or self.discovers
