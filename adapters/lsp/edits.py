"""What a server's edits make of texts: files before and after, and the difference as a patch.

Owns the applying of text edits and file operations in memory, and the unified diff. Writes nothing. Pure.
"""

from __future__ import annotations

import difflib
import hashlib
import io
import re
from collections.abc import Callable, Iterable

import msgspec

from adapters import kit
from adapters.lsp.text import Encoding, Text
from adapters.lsp.wire import DocumentChange, TextEdit, WorkspaceEdit

_ODD = re.compile(r'[\x00-\x1f\x7f"\\]')
_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


class Change(msgspec.Struct, frozen=True):
    """One file before and after; None where it does not exist. `path` is relative to the root."""

    path: str
    before: str | None
    after: str | None


class Plan(msgspec.Struct, frozen=True):
    """Changes that belong together. `id` is the hash of what they are: the same change has the same."""

    id: str
    title: str
    changes: tuple[Change, ...]

    @property
    def size(self) -> int:
        """Characters held."""
        return sum(len(each.before or "") + len(each.after or "") for each in self.changes)


def plan(title: str, changes: Iterable[Change]) -> Plan:
    """Put changes together; those that change nothing are left out."""
    kept = tuple(sorted((c for c in changes if c.before != c.after), key=lambda each: each.path))
    digest = hashlib.sha256()
    for each in kept:
        for part in (each.path, each.before, each.after):
            held = b"\1" if part is None else b"\0" + part.encode("utf-8", "surrogatepass")
            digest.update(len(held).to_bytes(8, "big") + held)
    return Plan(digest.hexdigest()[:16], title, kept)


def apply(text: str, edits: Iterable[TextEdit], encoding: Encoding) -> str:
    """The text with all edits made at once, as the protocol has it: every range is one of the text before.

    Raises `kit.ToolError` (`io`) for edits that overlap.
    """
    whole = Text(text)
    spans: list[tuple[int, int, str]] = []
    for edit in edits:
        start, end = edit.range.start, edit.range.end
        begin = whole.offset(start.line, start.character, encoding)
        spans.append((begin, whole.offset(end.line, end.character, encoding), edit.new_text))
    # Stable: insertions at one place keep the order that they came in, and come before what replaces it.
    spans.sort(key=lambda span: (span[0], span[1]))
    parts: list[str] = []
    done = 0
    for begin, end, new in spans:
        if begin < done or end < begin:
            raise kit.ToolError("io", "the language server gave edits that overlap; nothing is changed")
        parts += (text[done:begin], new)
        done = end
    return "".join([*parts, text[done:]])


def draft(
    edit: WorkspaceEdit,
    path_of: Callable[[str], str],
    read: Callable[[str], str | None],
    encoding: Encoding,
) -> list[Change]:
    """What the files would be. `path_of` gives the path of a URI, `read` a path's text, None where there is none.

    Raises `kit.ToolError` for edits that cannot be made, and whatever the two functions raise.
    """
    before: dict[str, str | None] = {}
    after: dict[str, str | None] = {}
    named: dict[str, DocumentChange] = {}

    def now(path: str) -> str | None:
        if path not in after:
            before[path] = after[path] = read(path)
        return after[path]

    for step in edit.steps:
        match step.kind:
            case "":
                path = path_of(step.uri_of_text)
                if not _is_made(named.setdefault(path, step), step, path):
                    after[path] = apply(_there(now(path), path), step.edits, encoding)
            case "create":
                path = path_of(step.uri)
                if _may_write(step, now(path), path):
                    after[path] = ""
            case "delete":
                path = path_of(step.uri)
                _check_deleted(step, now(path), path)
                after[path] = None
            case "rename":
                old, path = path_of(step.old_uri), path_of(step.new_uri)
                text = now(old)
                if text is None:
                    raise kit.ToolError("io", f"the language server renames {old}, which is no file")
                if _may_write(step, now(path), path):
                    after[path], after[old] = text, None
    return [Change(path, before[path], after[path]) for path in after]


def diff(changes: Iterable[Change]) -> str:
    """A patch as `git apply` and `patch -p1` take it."""
    parts: list[str] = []
    for each in changes:
        if each.before == each.after:
            continue
        names = _quoted(f"a/{each.path}"), _quoted(f"b/{each.path}")
        old = "/dev/null" if each.before is None else names[0]
        new = "/dev/null" if each.after is None else names[1]
        parts.append(f"diff --git {names[0]} {names[1]}\n")
        parts += ["new file mode 100644\n"] if each.before is None else []
        parts += ["deleted file mode 100644\n"] if each.after is None else []
        for line in difflib.unified_diff(_cut(each.before), _cut(each.after), old, new):
            parts.append(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n")
    return "".join(parts)


def cut(patch: str, most: int) -> str:
    """A patch up to where it gets longer than so many characters, in whole lines."""
    return patch if len(patch) <= most else patch[: patch.rfind("\n", 0, most) + 1]


def _quoted(name: str) -> str:
    """A name as git writes it: one that a line of a patch could not hold stands in quotes."""
    if not _ODD.search(name):
        return name
    return '"' + _ODD.sub(lambda found: _ESCAPES.get(found[0]) or f"\\{ord(found[0]):03o}", name) + '"'


def _may_write(step: DocumentChange, found: str | None, path: str) -> bool:
    """Whether a file may be put there. Raises `kit.ToolError` where one is and is not to be replaced."""
    options = step.options
    if found is None or (options and options.overwrite):
        return True
    if options and options.ignore_if_exists:
        return False
    raise kit.ToolError("io", f"{path} exists already; nothing is changed")


def _there(text: str | None, path: str) -> str:
    if text is None:
        raise kit.ToolError("io", f"the language server edits {path}, which does not exist")
    return text


def _is_made(first: DocumentChange, step: DocumentChange, path: str) -> bool:
    """Whether a file has been edited so under another name. Raises `kit.ToolError` where it was in another way.

    A link to a file within the root is another name of it, and servers then want the same made to both.
    """
    if first.uri_of_text == step.uri_of_text:
        return False
    if first.edits != step.edits:
        raise kit.ToolError("io", f"the language server edits {path} under two names, each in its own way")
    return True


def _check_deleted(step: DocumentChange, found: str | None, path: str) -> None:
    """Raises `kit.ToolError` where nothing is there and something has to be."""
    if found is None and not (step.options and step.options.ignore_if_not_exists):
        raise kit.ToolError("io", f"the language server deletes {path}, which does not exist")


def _cut(text: str | None) -> list[str]:
    """Lines with their ends, cut at line feeds alone, as patches are."""
    return io.StringIO(text or "", newline="\n").readlines()
