"""What is in C here, where it could be compiled: each is held equal to the Python that stands in for it elsewhere."""

SOURCES: str
"""What it was made of."""

def crc32c(data: bytes) -> int:
    """As `google_crc32c.value`."""

def crc32c_by_table(data: bytes) -> int:
    """The same without instructions that not every processor has."""

def line_filled(form: bytes, *values: object) -> bytes:
    """As `segment.line_filled`."""

def line_from(payload: bytes) -> bytes:
    """As `segment.line_from`."""
