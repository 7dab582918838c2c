"""A browser for tests: opens the one URL that it is given, follows where it is sent, shows nothing."""

from __future__ import annotations

import sys
import urllib.request

if __name__ == "__main__":
    with urllib.request.urlopen(sys.argv[1], timeout=20) as page:
        page.read()
