"""Text forms on disk: writing one over an older one, and giving the files of one that is read.

Owns the directory: what of it is the text form's and what is somebody else's. What the files hold is `textform`'s
business.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from recordings.errors import RecordingError
from recordings.textform import BODIES, LANES, OUTSIDE, SESSION

MOST_BYTES = 1 << 30


def write_text_form(directory: Path, files: Iterable[tuple[str, bytes]]) -> int:
    """Write a text form, in the place of the one that lies there; give the number of its files.

    Other files in the directory stay. Where something fails, what was there stays. Raises `RecordingError`.
    """
    if directory.is_dir() and any(directory.iterdir()) and not is_text_form(directory):
        raise RecordingError(
            f"{directory} is not empty, and holds no text form: name another directory",
            code="invalid_request",
        )
    count = 0
    made: Path | None = None
    try:
        directory.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=".new-", dir=directory))
        for path, data in files:
            target = made / path
            target.parent.mkdir(parents=True, exist_ok=True)
            fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(data)
            count += 1
        _put(made, directory)
    except OSError as error:
        raise RecordingError(f"the text form cannot be written: {error.strerror}") from error
    finally:
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)
    return count


def _put(made: Path, directory: Path) -> None:
    for name in (LANES, OUTSIDE, BODIES):
        shutil.rmtree(directory / name, ignore_errors=True)
        if (made / name).exists():
            os.replace(made / name, directory / name)
    os.replace(made / SESSION, directory / SESSION)


def is_text_form(directory: Path) -> bool:
    """Whether a directory holds a text form."""
    try:
        with open(directory / SESSION, "rb") as file:
            return b'"tieline_text"' in file.read(MOST_BYTES)
    except OSError:
        return False


class TextFiles:
    """The files of a text form, by their paths; none that lies elsewhere or is too large."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory.resolve()

    def __call__(self, path: str) -> bytes:
        """One file. Raises `FileNotFoundError`, `RecordingError`."""
        target = (self._directory / path).resolve()
        if not target.is_relative_to(self._directory):
            raise RecordingError(f"{path} leads out of the text form", code="denied")
        try:
            if target.stat().st_size > MOST_BYTES:
                raise RecordingError(f"{path} is larger than 1 GiB", code="invalid_request")
            return target.read_bytes()
        except FileNotFoundError:
            raise
        except OSError as error:
            raise RecordingError(f"{path} cannot be read: {error.strerror}") from error
