"""What is in C here, where it could be compiled: each is held equal to the Python that stands in for it elsewhere."""

from collections.abc import Callable, Iterable

SOURCES: str
"""What it was made of."""

PATTERNS: str
"""By what the patterns are known again that `Glance` stands before: see `glance.known_again`."""

class Glance:
    """A look that asks another one where it cannot say that bytes hold no secret."""

    def __new__(
        cls, otherwise: Callable[[bytes], list[int] | None], known: Iterable[bytes], *, plainly: bool = False
    ) -> Glance:
        """`known` are forms of secrets, of four bytes at least; `plainly` does without vector instructions."""

    otherwise: Callable[[bytes], list[int] | None]
    """What is asked then."""

    def __call__(self, data: bytes, /) -> list[int] | None:
        """None, or what `otherwise` says."""

def crc32c(data: bytes) -> int:
    """As `google_crc32c.value`."""

def crc32c_by_table(data: bytes) -> int:
    """The same without instructions that not every processor has."""

def line_filled(form: bytes, *values: object) -> bytes:
    """As `segment.line_filled`."""

def line_from(payload: bytes) -> bytes:
    """As `segment.line_from`."""
