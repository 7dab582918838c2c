"""The tools and resources of a directory: list, read, search, and where it is allowed write.

Owns their limits and their results. Which paths may be opened is `beneath`'s.
"""

from __future__ import annotations

import base64
import contextlib
import fnmatch
import mimetypes
import os
import secrets
import stat
from collections.abc import Generator, Iterator
from typing import Annotated, Any, Literal
from urllib.parse import quote, unquote, urlsplit

import msgspec

from adapters import kit
from adapters.files.beneath import Root

MAX_READ_BYTES = 256 * 1024
MAX_RESOURCE_BYTES = 4 * 1024 * 1024
MAX_ENTRIES = 1000
PAGE = 200
SKIPPED = frozenset({".git", ".hg", ".venv", "node_modules", "__pycache__", ".mypy_cache", ".ruff_cache"})
"""Directories that no search and no resource list descends into."""


class Entry(msgspec.Struct, kw_only=True):
    """One entry of a directory; `size` in bytes, of files alone."""

    name: str
    kind: Literal["file", "directory", "link", "other"]
    size: int | None = None


class Listing(msgspec.Struct, kw_only=True):
    """The entries of a directory, by name. `complete` is false where there are more than are given."""

    path: str
    entries: list[Entry]
    complete: bool

    def text(self) -> str:
        """One entry a line, directories with a slash."""
        lines = [f"{entry.name}/" if entry.kind == "directory" else entry.name for entry in self.entries]
        return "\n".join(lines if self.complete else [*lines, "(more)"]) or "(empty)"


class Content(msgspec.Struct, kw_only=True):
    """Lines of a text file. `next_line` is where to read on, None at the end of the file."""

    path: str
    content: str
    first_line: int
    next_line: int | None

    def text(self) -> str:
        """The lines, and where there are more, that there are."""
        return self.content + (f"\n(more, from line {self.next_line})" if self.next_line else "")


class Match(msgspec.Struct, kw_only=True):
    """One line that matched."""

    path: str
    line: int
    text: str


class Matches(msgspec.Struct, kw_only=True):
    """What a search found. `skipped` counts files that are binary, too large or not readable."""

    matches: list[Match]
    files_searched: int
    skipped: int
    complete: bool

    def text(self) -> str:
        """`path:line: text`, one match a line."""
        lines = [f"{match.path}:{match.line}: {match.text}" for match in self.matches]
        return "\n".join(lines if self.complete else [*lines, "(more)"]) or "no match"


class Written(msgspec.Struct, kw_only=True):
    """A file that was written."""

    path: str
    bytes: int
    created: bool


Lines = Annotated[int, msgspec.Meta(ge=1, le=10_000)]


class Files:
    """The tools over one root. All run in worker threads."""

    def __init__(self, root: Root) -> None:
        self._root = root

    def list_directory(self, path: str = ".") -> Listing:
        """List a directory: names, kinds and sizes.

        Args:
            path: Relative to the root, or absolute beneath it.
        """
        entries: list[Entry] = []
        with _handle(self._root.open_directory(path)) as directory, os.scandir(directory) as found:
            for entry in found:
                status = entry.stat(follow_symlinks=False)
                size = status.st_size if stat.S_ISREG(status.st_mode) else None
                entries.append(Entry(name=_printable(entry.name), kind=_kind(status.st_mode), size=size))
        entries.sort(key=lambda entry: entry.name)
        complete = len(entries) <= MAX_ENTRIES
        return Listing(path=self._root.relative(path), entries=entries[:MAX_ENTRIES], complete=complete)

    def read_file(self, path: str, first_line: Lines = 1, max_lines: Lines = 2000) -> Content:
        """Read a text file, whole or from a line on.

        Args:
            path: Relative to the root, or absolute beneath it.
            first_line: Where to begin; the first line is 1.
            max_lines: How many lines to give at most; no more than 256 KiB are given at once.
        """
        kept: list[bytes] = []
        size, more = 0, None
        with open(self._root.open_file(path), "rb") as file:
            for number, line in enumerate(file, 1):
                if number < first_line:
                    continue
                if len(kept) == max_lines or (kept and size + len(line) > MAX_READ_BYTES):
                    more = number
                    break
                if len(line) > MAX_READ_BYTES:
                    raise kit.ToolError("invalid_request", f"{path}: line {number} is {len(line)} bytes long")
                kept.append(line)
                size += len(line)
        try:
            text = b"".join(kept).decode()
        except UnicodeDecodeError:
            raise kit.ToolError("invalid_request", f"{path} is not UTF-8 text") from None
        return Content(path=self._root.relative(path), content=text, first_line=first_line, next_line=more)

    def search_files(
        self,
        ctx: kit.Context,
        pattern: str,
        path: str = ".",
        glob: str = "*",
        regex: bool = False,  # noqa: FBT001, FBT002 - an argument of the tool, given by name
        max_matches: Lines = 200,
    ) -> Matches:
        """Search the lines of the text files beneath a directory.

        Args:
            pattern: The text to look for, case and all.
            path: The directory to search, relative to the root.
            glob: Which file names to look at, as in `*.py`.
            regex: Take the pattern as a regular expression (RE2 syntax).
            max_matches: How many lines to give at most.
        """
        import re2  # the one import that costs, and only a search needs it

        engine: Any = re2
        try:
            matcher = engine.compile((pattern if regex else engine.escape(pattern)).encode())
        except engine.error as fault:
            raise kit.ToolError("invalid_request", f"pattern: {fault}") from None
        found = Matches(matches=[], files_searched=0, skipped=0, complete=True)
        for where in self._walk(path):
            if ctx.cancelled:
                break
            if not fnmatch.fnmatchcase(os.path.basename(where), glob):
                continue
            data = self._readable(where)
            if data is None:
                found.skipped += 1
                continue
            found.files_searched += 1
            if found.files_searched % 20 == 0:
                ctx.progress(found.files_searched, message=where)
            if not matcher.search(data):
                continue
            for number, line in enumerate(data.split(b"\n"), 1):
                if matcher.search(line):
                    if len(found.matches) == max_matches:
                        found.complete = False
                        return found
                    text = line[:500].decode(errors="replace").rstrip("\r")
                    found.matches.append(Match(path=where, line=number, text=text))
        return found

    def write_file(self, path: str, content: str, overwrite: bool = False) -> Written:  # noqa: FBT001, FBT002
        """Write a text file whole. What is there before stays as it is unless the new content is complete.

        Args:
            path: Relative to the root, or absolute beneath it; its directory must exist.
            content: The whole new content.
            overwrite: Replace a file that exists.
        """
        parent, name = os.path.split(self._root.relative(path))
        if name in ("", ".", ".."):
            raise kit.ToolError("invalid_request", f"{path!r} names no file")
        data = content.encode()
        with _handle(self._root.open_directory(parent or ".")) as directory:
            temporary = f".{name}.{secrets.token_hex(4)}.tmp"
            try:
                handle = os.open(
                    temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=directory
                )
                try:
                    with open(handle, "wb") as file:
                        file.write(data)
                    created = self._place(temporary, name, directory, overwrite=overwrite)
                finally:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(temporary, dir_fd=directory)
            except FileExistsError:
                raise kit.ToolError(
                    "invalid_request", f"{path} exists; say overwrite to replace it"
                ) from None
            except OSError as fault:
                raise kit.ToolError("io", f"{path}: {fault.strerror}") from None
        return Written(path=self._root.relative(path), bytes=len(data), created=created)

    def page(self, cursor: str | None) -> tuple[list[kit.Resource], str | None]:
        """Text and other files as resources, by path; the cursor is the last path given."""
        after = ""
        if cursor is not None:
            try:
                after = base64.urlsafe_b64decode(cursor).decode()
            except ValueError:
                raise kit.ToolError("invalid_request", "unknown cursor") from None
        paths = [path for path in self._walk(".") if path > after]
        shown = sorted(paths)[:PAGE]
        following = base64.urlsafe_b64encode(shown[-1].encode()).decode() if len(paths) > PAGE else None
        return [self._resource(path) for path in shown], following

    def read(self, uri: str) -> kit.Blob:
        """The content of a `file:///` URI beneath the root."""
        parts = urlsplit(uri)
        if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
            raise kit.ToolError("invalid_request", f"not a file:/// URI: {uri}")
        path = unquote(parts.path)
        with open(self._root.open_file(path), "rb") as file:
            data = file.read(MAX_RESOURCE_BYTES + 1)
        if len(data) > MAX_RESOURCE_BYTES:
            raise kit.ToolError("invalid_request", f"{path} is larger than {MAX_RESOURCE_BYTES} bytes")
        mime = mimetypes.guess_type(path)[0] or ""
        try:
            return kit.Blob(data=data.decode(), mime_type=mime or "text/plain")
        except UnicodeDecodeError:
            return kit.Blob(data=data, mime_type=mime or "application/octet-stream")

    def _resource(self, path: str) -> kit.Resource:
        uri = "file://" + quote(os.path.join(self._root.path, path))
        return kit.Resource(uri=uri, name=path, mime_type=mimetypes.guess_type(path)[0] or "")

    def _walk(self, path: str) -> Iterator[str]:
        """The regular files beneath a directory, as paths from the root. Never follows a link."""
        prefix = self._root.relative(path)
        with _handle(self._root.open_directory(path)) as directory:
            for here, directories, names, handle in os.fwalk(".", dir_fd=directory):
                directories[:] = sorted(name for name in directories if name not in SKIPPED)
                for name in sorted(names):
                    if _is_regular(name, handle):
                        yield os.path.normpath(os.path.join(prefix, here, name))

    def _readable(self, path: str) -> bytes | None:
        try:
            with open(self._root.open_file(path), "rb") as file:
                data = file.read(MAX_RESOURCE_BYTES + 1)
        except (kit.ToolError, OSError):
            return None
        return None if len(data) > MAX_RESOURCE_BYTES or b"\0" in data[:8192] else data

    @staticmethod
    def _place(temporary: str, name: str, directory: int, *, overwrite: bool) -> bool:
        """Give the finished file its name. A link of that name is replaced, never followed."""
        try:
            os.link(temporary, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
        except FileExistsError:
            if not overwrite:
                raise
            os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
            return False
        return True


@contextlib.contextmanager
def _handle(descriptor: int) -> Generator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_regular(name: str, directory: int) -> bool:
    try:
        return stat.S_ISREG(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _kind(mode: int) -> Literal["file", "directory", "link", "other"]:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "link" if stat.S_ISLNK(mode) else "other"


def _printable(name: str) -> str:
    return name.encode(errors="surrogateescape").decode(errors="replace")
