"""A look at long bodies before they come to be recorded, in a thread: their hash, and whether they may hold a secret.

Owns the thread, and what it has found out while a body is on its way. Writes nothing: a body that is never recorded
has left no trace. Who holds a body back meanwhile is the link's business; whoever is not told of a look does without.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import msgspec

from recordings.segment import digest_of

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    class Searches(Protocol):
        """What is asked of a redactor."""

        @property
        def generation(self) -> int:
            """Changes whenever there is more that is a secret."""
            ...

        def suspects(self, data: bytes) -> bool:
            """Whether these bytes may hold a secret."""
            ...


LEAST_BYTES = 256 * 1024
"""A shorter body is hashed and searched in less time than it takes to wait for a thread, half a millisecond at most."""


class Seen(msgspec.Struct, frozen=True, gc=False):
    """What a look has found."""

    digest: str
    """SHA-256, in hex."""
    generation: int
    """The redactor's, when it began to search."""
    is_suspected: bool


class Looks:
    """One thread that looks at one body after the other, and what it has found of each that is not yet passed on."""

    least_bytes = LEAST_BYTES

    def __init__(self, redactor: Searches) -> None:
        self._redactor = redactor
        self._seen: dict[int, tuple[bytes, Seen]] = {}
        self._thread: ThreadPoolExecutor | None = None

    def begin(self, body: bytes, then: Callable[[], None]) -> None:
        """Look at a body, and call `then` when that is done, in the thread; or at once, where there can be none."""
        try:
            if self._thread is None:
                # For who has long bodies alone: nothing of it is loaded at a start.
                from concurrent.futures import ThreadPoolExecutor

                self._thread = ThreadPoolExecutor(1, "tieline-look")
            self._thread.submit(self._look, body, then)
        except (ImportError, OSError, RuntimeError):
            thread, self._thread = self._thread, None
            if thread is not None:
                # It never began: nobody else waits for it, and who waits now is not to be told twice.
                thread.shutdown(wait=False, cancel_futures=True)
            then()

    def end(self, body: bytes) -> None:
        """Forget what was found of a body: it has been passed on, or never will be."""
        self._seen.pop(id(body), None)

    def seen(self, body: bytes) -> Seen | None:
        """What a look has found of this very object, by what is a secret now; None where there was none."""
        kept = self._seen.get(id(body))
        if kept is None or kept[0] is not body or kept[1].generation != self._redactor.generation:
            return None
        return kept[1]

    def _look(self, body: bytes, then: Callable[[], None]) -> None:
        try:
            generation = self._redactor.generation
            suspected = self._redactor.suspects(body)
            self._seen[id(body)] = body, Seen(digest_of(body), generation, suspected)
        finally:
            then()
