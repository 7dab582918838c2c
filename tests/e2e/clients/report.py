"""What a real client is told to do, and what it reports: one JSON object as argument, one line of JSON as answer.

`{"command": [...]}` or `{"url": ..., "token": ...}`, with `"mode"` where a client can speak either era. Plain
Python: it also runs in the environment of the 1.x client.
"""

import json
import sys
from collections.abc import Mapping
from typing import Any

PROMPT = "What is the capital of France?"
SAMPLED = "Paris, it says."
NAME = "Ada"
ROOT = "file:///home/ada"
STEPS = 3
"""Of the long running operation, 20 ms each."""


def target() -> dict[str, Any]:
    """What to connect to."""
    return json.loads(sys.argv[1])


def tell(report: Mapping[str, Any]) -> None:
    """Print the report."""
    print(json.dumps(report), flush=True)
