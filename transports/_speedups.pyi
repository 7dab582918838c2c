"""What is in C here, where it could be compiled: each is held equal to the Python that stands in for it elsewhere."""

from transports import plain_lines

SOURCES: str
"""What it was made of."""

class PlainLines(plain_lines.PlainLines): ...
class PlainTurn(plain_lines.PlainTurn): ...
