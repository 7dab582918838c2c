"""A result as a CSV file: written row by row, whole or not at all, and never over another file.

Owns the file and how values look in it.
"""

from __future__ import annotations

import asyncio
import csv
import hashlib
import io
import os
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import msgspec

from adapters.database.engine import Batch
from adapters.database.shapes import Exported


async def write_csv(batches: AsyncIterator[Batch], path: str, told: Callable[[int], None]) -> Exported:
    """Write all rows to a new file. `told` hears how many there are so far. Raises `OSError`."""
    digest = hashlib.sha256()
    count = size = 0
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(handle, "wb") as file:
            async for batch in batches:
                lines = [[_field(value) for value in row] for row in batch.rows]
                if not size:
                    lines.insert(0, [column.name for column in batch.columns])
                text = io.StringIO(newline="")
                csv.writer(text).writerows(lines)
                data = text.getvalue().encode()
                await asyncio.to_thread(file.write, data)
                digest.update(data)
                count += len(batch.rows)
                size += len(data)
                if count:
                    told(count)
    except BaseException:
        os.unlink(path)
        raise
    return Exported(file=os.path.basename(path), rows=count, bytes=size, sha256=digest.hexdigest())


def _field(value: Any) -> Any:
    if isinstance(value, dict):
        return cast("dict[str, str]", value)["$bytes"]
    if isinstance(value, list | bool):
        return msgspec.json.encode(value).decode()
    return value
