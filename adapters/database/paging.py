"""One page of a long result, and the cursor that leads to the next one.

Owns the limits and the cursors. A cursor says how many rows were given and what they were: the statement runs again,
and where these rows are not the same, it is refused rather than to repeat or to skip some. Pure.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from adapters import kit
from adapters.database.engine import Batch
from adapters.database.shapes import Result, ResultColumn


class Pager:
    """Takes batches of one statement until its page is full. `key` names the statement."""

    def __init__(self, key: Any, *, cursor: str, max_rows: int, max_bytes: int) -> None:
        """Raises `ToolError` for a cursor of another statement."""
        self._key = hashlib.blake2b(msgspec.json.encode(key), digest_size=6).hexdigest()
        self._max_rows, self._max_bytes = max_rows, max_bytes
        self._skip, self._held = self._read(cursor) if cursor else (0, "")
        self._seen = hashlib.blake2b(digest_size=8)
        self._skipped = self._size = 0
        self._types: list[set[str]] = []
        self._mark = ""
        self.page = Result(database="", columns=[], rows=[], row_count=0)

    @property
    def wanted(self) -> int:
        """How many rows the statement has to give: those before the page, its own, and one to know of more."""
        return self._skip + self._max_rows + 1

    def take(self, batch: Batch) -> bool:
        """Take a batch; whether more are wanted. Raises `ToolError` where the rows before are not as they were."""
        if not self._types:
            self._types = [set() for _ in batch.columns]
            self._mark = batch.mark
        self.page.columns = batch.columns
        for row in batch.rows:
            encoded = msgspec.json.encode(row)
            if self._skipped < self._skip:
                self._skipped += 1
                self._seen.update(encoded)
                if self._skipped == self._skip:
                    self._check()
            elif not self._add(row, encoded):
                self._note(batch.columns)
                return False
        self._note(batch.columns)
        return True

    def finish(self) -> Result:
        """The page. Raises `ToolError` where there are fewer rows now than were given before."""
        if self._skipped < self._skip:
            self._changed()
        self.page.columns = [
            ResultColumn(name=column.name, type="|".join(sorted(kinds - {"null"})) or "null")
            for column, kinds in zip(self.page.columns, self._types, strict=True)
        ]
        self.page.row_count = len(self.page.rows)
        if self.page.truncated:
            self.page.next = f"{self._skip + self.page.row_count}.{self._digest()}.{self._key}"
        return self.page

    def _add(self, row: list[Any], encoded: bytes) -> bool:
        length = len(encoded)
        if length > self._max_bytes and not self.page.rows:
            raise kit.ToolError(
                "invalid_request", f"one row is {length} bytes long; select less of it or raise max_bytes"
            )
        if len(self.page.rows) == self._max_rows or self._size + length > self._max_bytes:
            self.page.truncated = "rows" if len(self.page.rows) == self._max_rows else "bytes"
            return False
        self._size += length
        self._seen.update(encoded)
        self.page.rows.append(row)
        return True

    def _note(self, columns: list[ResultColumn]) -> None:
        for kinds, column in zip(self._types, columns, strict=True):
            kinds.update(column.type.split("|"))

    def _digest(self) -> str:
        return f"{self._seen.copy().hexdigest()}{self._mark}"

    def _check(self) -> None:
        if self._digest() != self._held:
            self._changed()

    def _changed(self) -> None:
        raise kit.ToolError(
            "invalid_request",
            "the rows before this cursor are not the same any more: the database has changed, "
            "or the statement has no ORDER BY that fixes all of the order; begin again",
        )

    def _read(self, cursor: str) -> tuple[int, str]:
        skip, _, rest = cursor.partition(".")
        held, _, of = rest.partition(".")
        if not skip.isdecimal() or len(skip) > 12 or of != self._key:
            raise kit.ToolError("invalid_request", "this cursor belongs to another statement, or is none")
        return int(skip), held
