"""The file of accepted tool definitions, on disk beside the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.calls.accepted import Accepted, AcceptedError, decode, encode
from gateway.config.model import Config
from gateway.config.places import accepted_place

if TYPE_CHECKING:
    from pathlib import Path


def read_accepted(config: Config) -> Accepted:
    """Return what was accepted for this configuration; nothing if nothing ever was.

    Raises:
        AcceptedError: If the file cannot be read, is damaged or was edited; the message names it.
    """
    if config.source is None:
        # `tieline record` changes nothing for its client, whatever lies in the working directory.
        return Accepted()
    path = accepted_place(config)
    try:
        with open(path, "rb") as file:
            return decode(file.read())
    except FileNotFoundError:
        return Accepted()
    except OSError as error:
        raise AcceptedError(f"`{path}` cannot be read: {error.strerror}") from error
    except AcceptedError as error:
        raise AcceptedError(f"`{path}` cannot be used: {error}") from error


def write_accepted(path: Path, accepted: Accepted) -> None:
    """Write the file whole, or leave the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.new")
    draft.write_bytes(encode(accepted))
    draft.replace(path)
