"""Several recordings for several sessions: which of them a session that begins is played from.

Owns the choice. A session takes the recording that was taken least often and, of these, the one that began first, among
those whose first request has the same form as its own. Many begin alike, with a handshake; the first request after that
may still lead to another recording. Knows no link and no time: who plays is told to go on with another player.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.replay.player import HANDSHAKES, Asked, Player
from gateway.replay.recollection import Recollection
from recordings.scripted import Arrival

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Said:
    """A live request, of the core or of the gateway itself."""

    live: int
    peer: str
    lane: str
    method: str
    name: str
    params: bytes
    is_own: bool


class Book:
    """One recording on the shelf."""

    def __init__(self, path: Path, recollection: Recollection) -> None:
        self.path = path
        self.recollection = recollection
        self.taken = 0
        """How many sessions were played from it, or are."""
        asked = [one for one in recollection.script.arrivals.values() if one.kind == "request"]
        asked = [one for one in asked if not one.is_own]
        self.first = next(iter(asked), None)
        self.second = next((one for one in asked if one.method not in HANDSHAKES), None)
        """The first one after the handshake."""

    def begins_with(self, said: Said, redact: Callable[[bytes], bytes]) -> bool:
        """Whether its first request has the form of a live one."""
        return self._is(self.first, said, redact)

    def goes_on_with(self, said: Said, redact: Callable[[bytes], bytes]) -> bool:
        """Whether its first request after the handshake has the form of a live one."""
        return self._is(self.second, said, redact)

    def _is(self, recorded: Arrival | None, said: Said, redact: Callable[[bytes], bytes]) -> bool:
        if recorded is None or (recorded.method, recorded.name) != (said.method, said.name):
            return False
        form = self.recollection.live_forms.form(
            said.method, said.name or None, redact(said.params), peer=said.peer or None
        )
        return form.key == self.recollection.form(recorded.seq).key


class Shelf:
    """The recordings, in the order in which they began."""

    def __init__(self, books: Sequence[Book], redact: Callable[[bytes], bytes]) -> None:
        """`redact` takes secrets out of live params."""
        self.books = tuple(books)
        self.redact = redact

    def first(self) -> Book:
        """The one that a session holds until it has said something."""
        return min(self.books, key=lambda book: book.taken)

    def beginning(self, said: Said) -> Book:
        """The one for a session that begins with a request."""
        fitting = [book for book in self.books if book.begins_with(said, self.redact)]
        return min(fitting or self.books, key=lambda book: book.taken)

    def going_on(self, first: Said, second: Said) -> Book | None:
        """The one for a session that goes on so, None where there is none."""
        fitting = [book for book in self.books if book.goes_on_with(second, self.redact)]
        fitting = [book for book in fitting if book.begins_with(first, self.redact)] or fitting
        return min(fitting, key=lambda book: book.taken, default=None)

    @property
    def untouched(self) -> list[Path]:
        """Recordings that no session was played from."""
        return [book.path for book in self.books if not book.taken]


class Seating:
    """One session, which finds out what it is played from by what it says."""

    def __init__(self, shelf: Shelf, player_for: Callable[[Book], Player]) -> None:
        self._shelf = shelf
        self._player_for = player_for
        self._book = shelf.first()
        self.player = player_for(self._book)
        """Who plays now."""
        self._said: list[tuple[Said, Asked]] = []
        self._first: Said | None = None
        self.is_decided = len(shelf.books) == 1
        if self.is_decided:
            self._book.taken += 1

    def heard(self, said: Said) -> Player:
        """A live request is about to be looked up; return who plays from now on."""
        if not self.is_decided and not said.is_own:
            if self._first is None:
                self._first = said
                self._take(self._shelf.beginning(said))
            if said.method not in HANDSHAKES:
                self.is_decided = True
                if not self._book.goes_on_with(said, self._shelf.redact):
                    self._go_on(self._first, said)
        return self.player

    def found(self, said: Said, asked: Asked) -> None:
        """A live request was looked up."""
        if not self.is_decided:
            self._said.append((said, asked))

    def _take(self, book: Book) -> None:
        book.taken += 1
        if book is not self._book:
            self._change(book)

    def _go_on(self, first: Said, second: Said) -> None:
        self._book.taken -= 1
        other = self._shelf.going_on(first, second)
        if other is None:
            self._book.taken += 1
        else:
            self._take(other)

    def _change(self, book: Book) -> None:
        """Play from another recording, as if the session had been played from that one since it began."""
        before, self._book = self.player, book
        self.player = self._player_for(book)
        script = self.player.script
        for said, asked in self._said:
            again = self.player.asked(
                said.live, peer=said.peer, lane=said.lane, method=said.method, name=said.name, params=said.params,
                is_own=said.is_own,
            )  # fmt: skip
            if (
                again.recorded is not None
                and asked.recorded is not None
                and _is_answered(before, asked.recorded)
            ):
                for seq in script.caused_by(again.recorded):
                    self.player.delivered(script.deliveries[seq])
            elif again.miss is not None:
                self.player.dispatched(said.live)


def _is_answered(player: Player, recorded: int) -> bool:
    script = player.script
    return any(player.has_come(seq) for seq in script.caused_by(recorded) if script.deliveries[seq].is_answer)
