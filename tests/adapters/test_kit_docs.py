"""The page about writing an extension: its extension is one, its test passes, and it is as short as is said."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.adapters.kit_client import run

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "write-an-extension.md"


def test_the_whole_extension_of_the_page_has_less_than_twenty_lines_and_its_test_passes() -> None:
    extension, test = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    start = 'if __name__ == "__main__":\n    app.run()\n'
    assert extension.endswith(f"\n{start}")
    assert len(extension.splitlines()) < 20
    names: dict[str, Any] = {}
    exec(compile(extension.removesuffix(start), "todo.py", "exec"), names)
    exec(compile(test, "test_todo.py", "exec"), names)
    run(names["test_it"]())
