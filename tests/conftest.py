"""How generated tests draw in all of the suite, and where the programs that tests start keep their bytecode.

Owns that a run draws the same cases as the one before, so that what is green stays green until somebody changes
something. `TIELINE_DRAWS=anew` looks for cases that nobody has seen.
"""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
    # Whoever sets this wants no `__pycache__` beside his modules. But each program that a test starts would compile all
    # of its own anew, which takes longer than all else that it does: on a busy machine, a minute for some tests.
    kept = Path(__file__).parents[1] / ".pytest_cache" / "bytecode"
    os.environ.setdefault("PYTHONPYCACHEPREFIX", str(kept))

for name, same in (("same", True), ("anew", False)):
    settings.register_profile(
        name,
        derandomize=same,
        deadline=None,
        # How long a case takes to draw says more of the machine than of the test.
        suppress_health_check=[HealthCheck.too_slow],
    )
draws = os.environ.get("TIELINE_DRAWS", "same")
settings.load_profile(draws)
if draws == "same":
    # Constants of the modules that happen to be loaded are drawn too, so the same seed would give other cases in
    # another process. There is no setting for it.
    none: object = vars(providers)["_local_constants"]
    setattr(providers, "_get_local_constants", lambda: none)  # noqa: B010
