"""`python -m loadtest.peers`: the comparison of what a call costs."""

import sys

from loadtest.peers.race import main

sys.exit(main())
