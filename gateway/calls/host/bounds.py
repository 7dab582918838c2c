"""How much one host call may take: bytes, entries, processes, seconds.

Owns the numbers and nothing else; each connector keeps to its own.
"""

from __future__ import annotations

from typing import Final

import msgspec

KIB: Final = 1024
MIB: Final = 1024 * KIB


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of host calls. A call may ask for less, never for more."""

    result_bytes: int = 15 * MIB
    """Of an output as it is sent. Text that has to be escaped grows up to six times on the way."""
    read_bytes: int = 8 * MIB
    """Of a file that is given in one result."""
    write_bytes: int = 8 * MIB
    """Of what one call writes."""
    copy_bytes: int = 256 * MIB
    """Of a file that is copied."""
    entries: int = 10_000
    """Of a directory that is listed."""

    output_bytes: int = 4 * MIB
    """Of what a command says on stdout and stderr together; at more it is ended."""
    shell_bytes: int = 64 * MIB
    """Of what a line for the shell says, of which the end is shown; at more it is ended."""
    processes: int = 256
    """Of one command at the same time, itself counted."""
    exec_s: float = 120.0
    """Where the call names no time of its own."""

    request_bytes: int = 8 * MIB
    """Of the body of a request."""
    response_bytes: int = 8 * MIB
    """Of a body as it comes, and again of the same unpacked."""
    unpack_ratio: int = 100
    """Unpacked bytes for each byte that came, once there are more than `unpack_free`."""
    unpack_free: int = 64 * KIB
    """Unpacked bytes that no ratio is asked of."""
    redirects: int = 3
    """That are followed."""
    http_s: float = 30.0
    """For a request with all of its redirects."""

    files: int = 20_000
    """That one search looks at."""
    search_bytes: int = 64 * MIB
    """That one search reads."""
    search_s: float = 30.0
    """That one search takes."""


USUAL: Final = Bounds()
