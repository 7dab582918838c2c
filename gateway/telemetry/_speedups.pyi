from collections import deque
from collections.abc import Callable

from gateway.telemetry import waiting
from gateway.telemetry.facts import Item
from gateway.telemetry.kept import EndedCall, EndedQuestion, PlainCall
from gateway.telemetry.operations import Operation
from gateway.telemetry.plain import Known

SOURCES: str
LONGEST_SEED: int

class Load(waiting.Load): ...
class Waiting(waiting.Waiting): ...

class PlainLines:
    count: int
    @property
    def taken(self) -> int: ...
    @property
    def last(self) -> int: ...
    def __new__(
        cls,
        plain: dict[int, PlainCall],
        asking: dict[int, int],
        ended: dict[int, tuple[int, Operation] | EndedCall | EndedQuestion],
        seed: bytes,
        suspects: Callable[[bytes], object],
        turn: Callable[[int], tuple[int, str]],
        /,
    ) -> PlainLines: ...
    def learn(self, peer: str, name: str, body: bytes, id_: int, known: Known, /) -> None: ...
    def forget(self) -> None: ...
    def take(self, items: deque[Item], most: int, /) -> int: ...
    def add(self, line: str, /) -> None: ...
    def ready(self) -> bytes: ...
