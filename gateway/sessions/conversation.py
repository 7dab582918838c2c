"""The one session that an agent is in: what the host call `session` changes of it, and puts in its place.

Owns these operations, which session is the current one, and that nobody works on one that has been replaced; what is
only read of it is `told.py`'s. Lines are written by `Files` before the tree holds them, so that what an extension is
told has happened is on disk. Time and ids come from the caller: the same calls make the same session again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import singledispatchmethod
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET

from gateway.sessions import drafts, fork, ops
from gateway.sessions.entries import CUSTOM_MESSAGE, Entry, header_of
from gateway.sessions.files import Beginning, Files, StoreError
from gateway.sessions.format import SessionFile
from gateway.sessions.ids import Ids
from gateway.sessions.places import directory_of, file_of
from gateway.sessions.snapshot import BranchHash, snapshot
from gateway.sessions.told import told
from gateway.sessions.tree import Tree, TreeError

Why: TypeAlias = Literal["startup", "new", "fork", "resume", "reload"]
"""How a session became the current one."""
MOST_BYTES: Final = 256 * 1024 * 1024
"""Of one session."""


class StaleError(Exception):
    """A call of somebody who is still in a session that was replaced. `session` is the one to go on with."""

    def __init__(self, message: str, session: dict[str, Any]) -> None:
        super().__init__(message)
        self.session = session


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """The session that a caller believes to be in."""

    id: str
    generation: int | None = None


class Done(msgspec.Struct, kw_only=True):
    """What an operation came to."""

    output: dict[str, Any]
    wrote: list[Entry] = []
    moved: bool = False
    """Whether the leaf is another one without an entry that says so."""
    why: Why | None = None
    """How another session has become the current one, if one has."""


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """A file is to be read first: then `loaded` goes on."""

    target: str
    why: Literal["resume", "reload"]


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """The directory is to be read first."""

    limit: int


Result: TypeAlias = Done | Load | Listing


class Conversation:
    """The current session of one agent session."""

    def __init__(
        self,
        beginning: Beginning,
        files: Files,
        *,
        seen: Callable[[bytes], bytes] = bytes,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        """`seen` is what of a line counts in hashes: without what no recording may hold."""
        self.beginning = beginning
        self.generation = 1
        self._files = files
        self._seen = seen
        self._most_bytes = most_bytes
        self._hash = BranchHash(seen)
        self._model: dict[str, str] | None = None
        self._model_at: tuple[Tree, str | None] | None = None
        ids = Ids(beginning.seed)
        header = header_of(ids.session(beginning.at_ms), beginning.at_ms, beginning.cwd)
        self._enter(Tree(header, ids=ids), is_written=False)

    def _enter(self, tree: Tree, *, file: str | None = None, is_written: bool) -> None:
        self.tree = tree
        self.file = file or self._file_of(tree)
        self._is_written = is_written
        self._bytes = sum(len(entry.line) + 1 for entry in tree.entries)

    def _file_of(self, tree: Tree) -> str | None:
        directory, header = self.beginning.directory, tree.header
        if not directory:
            return None
        return f"{directory}/{directory_of(self.beginning.cwd)}/{file_of(header.id, header.timestamp)}"

    # What is told of it.

    @property
    def info(self) -> dict[str, Any]:
        """Which session it is and where it stands, as every context says it."""
        found: dict[str, Any] = {
            "id": self.tree.header.id, "generation": self.generation, "leaf": self.tree.leaf, "name": self.tree.name,
        }  # fmt: skip
        return found

    @property
    def model(self) -> dict[str, str] | None:
        """The model at the leaf."""
        key = self.tree, self.tree.leaf
        if self._model_at != key:
            # Every call is told of it, and to find it out is to look at the whole branch.
            model = self.tree.settings.model
            self._model = None if model is None else {"provider": model.provider, "model_id": model.id}
            self._model_at = key
        return self._model

    @property
    def branch_hash(self) -> str:
        """The sha256 hex of the way to the leaf."""
        return self._hash.of(self.tree)

    @property
    def snapshot(self) -> str:
        """The sha256 hex of the whole session."""
        return snapshot(self.tree, self._seen)

    def check(self, claim: Claim | None) -> None:
        """See that a caller means this session.

        Raises:
            StaleError: If it means another one.
        """
        if claim is None:
            return
        is_other = claim.id != self.tree.header.id
        if is_other or (claim.generation is not None and claim.generation != self.generation):
            info = self.info
            now = f"generation {self.generation} of it" if not is_other else f"`{info['id']}`"
            raise StaleError(
                f"stale session: `{claim.id[:64]}` has been replaced; the session is {now} now", info
            )

    # Operations.

    def serve(self, op: ops.Op, at_ms: int, salt: str) -> Result:
        """Do one operation. `salt` is the call's own: ids are drawn from it, in whatever order calls come.

        Raises:
            TreeError: It makes no sense with this session.
            StoreError: It cannot be written; then nothing has happened.
        """
        self.tree.ids = Ids(f"{self.beginning.seed} {salt}")
        return self._do(op, at_ms)

    @singledispatchmethod
    def _do(self, op: ops.Op, at_ms: int) -> Result:
        output = told(op, self)
        assert output is not None, op
        return Done(output=output)

    @_do.register
    def _(self, op: ops.AppendEntry, at_ms: int) -> Result:
        return self._append(drafts.custom(self.tree, at_ms, op.custom_type, _or_absent(op.data)))

    @_do.register
    def _(self, op: ops.AppendMessage, at_ms: int) -> Result:
        return self._append(drafts.message(self.tree, at_ms, op.message))

    @_do.register
    def _(self, op: ops.AppendCustomMessage, at_ms: int) -> Result:
        return self._append(
            drafts.custom_message(
                self.tree, at_ms, op.custom_type, op.content, display=op.display, details=_or_absent(op.details)
            )
        )  # fmt: skip

    @_do.register
    def _(self, op: ops.EditContext, at_ms: int) -> Result:
        return self._append(drafts.context_edit(self.tree, at_ms, op.target_id, op.content))

    @_do.register
    def _(self, op: ops.SetLabel, at_ms: int) -> Result:
        return self._append(drafts.label(self.tree, at_ms, op.target_id, op.label))

    @_do.register
    def _(self, op: ops.SetName, at_ms: int) -> Result:
        return self._append(drafts.name(self.tree, at_ms, op.name))

    @_do.register
    def _(self, op: ops.SetModel, at_ms: int) -> Result:
        return self._append(drafts.model(self.tree, at_ms, op.provider, op.model_id))

    @_do.register
    def _(self, op: ops.SetThinkingLevel, at_ms: int) -> Result:
        return self._append(drafts.thinking(self.tree, at_ms, op.level))

    @_do.register
    def _(self, op: ops.Compact, at_ms: int) -> Result:
        entry = drafts.compaction(
            self.tree, at_ms, op.summary, op.first_kept_entry_id, op.tokens_before,
            details=_or_absent(op.details), from_hook=True,
        )  # fmt: skip
        return self._append(entry)

    @_do.register
    def _(self, op: ops.Navigate, at_ms: int) -> Result:
        tree, text, onto = self.tree, None, op.target_id
        if op.target_id is not None:
            entry = tree.entry(op.target_id)
            if entry.role == "user" or entry.type == CUSTOM_MESSAGE:
                onto, text = fork.before(tree, entry.id)
        elif op.label is not None and op.summary is None:
            raise TreeError("bad_entry", "there is no entry to put the label at")
        before, wrote = tree.leaf, list[Entry]()
        summary = None
        if op.summary is not None:
            summary = drafts.branch_summary(
                tree, at_ms, onto, op.summary, details=_or_absent(op.details), from_hook=True
            )
        tree.move(onto)
        try:
            if summary is not None:
                wrote += self._append(summary).wrote
            if op.label is not None:
                target = summary.id if summary is not None else str(op.target_id)
                wrote += self._append(drafts.label(tree, at_ms, target, op.label)).wrote
        except StoreError:
            if not wrote:
                tree.move(before)
            raise
        output = {"session": self.info, "leaf": tree.leaf, "text": text, "cancelled": False}
        return Done(output=output, wrote=wrote, moved=tree.leaf != before)

    @_do.register
    def _(self, op: ops.Fork, at_ms: int) -> Result:
        tree, text, at = self.tree, None, op.entry_id
        if op.position == "before":
            onto, text = fork.before(tree, op.entry_id)
            if onto is None:
                return self._begins(at_ms, "fork", text)
            at = onto
        ids = tree.ids
        parent = self.file if self._is_written else None
        new = fork.branched(tree, at, id_=ids.session(at_ms), at_ms=at_ms, parent=parent, ids=ids)
        self._enter_new(new)
        return self._replaced("fork", text=text)

    @_do.register
    def _(self, op: ops.New, at_ms: int) -> Result:
        return self._begins(at_ms, "new", None, op.name)

    @_do.register
    def _(self, op: ops.Switch, at_ms: int) -> Result:
        return Load(target=op.target, why="resume")

    @_do.register
    def _(self, op: ops.Reload, at_ms: int) -> Result:
        if self.file is None or not self._is_written:
            return self._replaced("reload")
        return Load(target=self.file, why="reload")

    @_do.register
    def _(self, op: ops.ListSessions, at_ms: int) -> Result:
        return Listing(limit=op.limit)

    def loaded(self, load: Load, file: str, found: SessionFile, notes: Sequence[dict[str, Any]] = ()) -> Done:
        """Go on with a session that was read from a file; `notes` is what was wrong with its lines."""
        self._enter(Tree(found.header, found.entries), file=file, is_written=True)
        return self._replaced(load.why, notes=notes)

    def _begins(
        self, at_ms: int, why: Literal["new", "fork"], text: str | None, name: str | None = None
    ) -> Done:
        ids, parent = self.tree.ids, self.file if self._is_written else None
        tree = Tree(header_of(ids.session(at_ms), at_ms, self.beginning.cwd, parent), ids=ids)
        wrote = [] if name is None else [drafts.name(tree, at_ms, name)]
        self._enter_new(tree, wrote)
        return self._replaced(why, text=text, wrote=wrote)

    def _enter_new(self, tree: Tree, more: Sequence[Entry] = ()) -> None:
        """Let a session that was made here be the current one, and write it if it says anything."""
        entries, file = [*tree.entries, *more], self._file_of(tree)
        if file is not None and entries:
            self._files.append(file, [tree.header.line, *(entry.line for entry in entries)], new=True)
        for entry in more:
            tree.add(entry)
        self._enter(tree, is_written=file is not None and bool(entries))

    def _replaced(
        self,
        why: Why,
        *,
        text: str | None = None,
        notes: Sequence[dict[str, Any]] = (),
        wrote: Sequence[Entry] = (),
    ) -> Done:
        self.generation += 1
        output: dict[str, Any] = {"session": self.info, "file": self.file, "cancelled": False}
        if text is not None:
            output["text"] = text
        if notes:
            output["notes"] = list(notes)
        return Done(output=output, wrote=list(wrote), why=why)

    def _append(self, entry: Entry) -> Done:
        self._write(entry)
        self.tree.add(entry)
        return Done(output={"id": entry.id, "session": self.info}, wrote=[entry])

    def _write(self, made: Entry) -> None:
        size = len(made.line) + 1
        if self._bytes + size > self._most_bytes:
            why = f"a session holds up to {self._most_bytes} bytes; begin a new one, or fork this one"
            raise StoreError("session_full", why)
        if self.file is not None:
            lines = [made.line]
            if not self._is_written:
                lines = [self.tree.header.line, *(entry.line for entry in self.tree.entries), *lines]
            self._files.append(self.file, lines, new=not self._is_written)
            self._is_written = True
        self._bytes += size


def _or_absent(value: Any) -> Any:
    return drafts.ABSENT if value is UNSET else value
