"""The directory that an editor is asked about: its files by relative path, and nothing outside of it.

Owns the translation of paths, and the reading of one whole text.
"""

from __future__ import annotations

import os

from adapters import kit


class Root:
    """One directory, as its real path."""

    def __init__(self, path: str) -> None:
        self.path = os.path.realpath(path)

    def absolute(self, path: str) -> str:
        """The real path of a file. Raises `kit.ToolError`: `denied` for one outside of the root."""
        if "\0" in path or not path:
            raise kit.ToolError("invalid_request", "a path is not empty and holds no NUL")
        real = os.path.realpath(os.path.join(self.path, path))
        if self._beneath(real) is None:
            raise kit.ToolError("denied", f"{path!r} is outside of the root {self.path}")
        return real

    def file(self, path: str) -> str:
        """The real path of a file that is or could be there. Raises `kit.ToolError`.

        A directory has no text, and whoever opens a pipe waits until somebody writes into it.
        """
        real = self.absolute(path)
        if os.path.exists(real) and not os.path.isfile(real):
            raise kit.ToolError("invalid_request", f"{path} is no regular file")
        return real

    def read(self, path: str) -> str:
        """The text of a file, its line ends as they are; empty where there is none. Raises `kit.ToolError`."""
        real = self.file(path)
        try:
            if not os.path.exists(real):
                return ""
            with open(real, encoding="utf-8", newline="") as file:
                return file.read()
        except UnicodeDecodeError:
            raise kit.ToolError("invalid_request", f"{path} is no UTF-8 text") from None
        except OSError as fault:
            raise kit.ToolError("io", f"{path}: {fault.strerror}") from None

    def shown(self, path: str) -> str | None:
        """A path of the editor's, relative to the root; None for one outside of it."""
        return self._beneath(os.path.realpath(path)) if path else None

    def _beneath(self, real: str) -> str | None:
        if real == self.path:
            return None
        base = self.path.rstrip(os.sep) + os.sep
        return real[len(base) :] if real.startswith(base) else None
