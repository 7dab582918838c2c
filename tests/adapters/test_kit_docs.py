"""What the page about writing an extension promises of its example. That it runs is tried in `processes`."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "write-an-extension.md"


def test_the_whole_extension_of_the_page_has_less_than_twenty_lines() -> None:
    extension, _test = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    assert extension.endswith('\nif __name__ == "__main__":\n    app.run()\n')
    assert len(extension.splitlines()) < 20
