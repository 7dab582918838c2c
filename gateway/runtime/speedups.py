"""Which steps run in C here, as they can where that was compiled (`_speedups`), and why the others do not.

Owns how that is asked, and the words for it. What is in C is for the packages that have it, and each has the same in
Python beside it.
"""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

PACKAGES = ("recordings", "transports", "gateway.protocol", "gateway.telemetry")
"""Those that have C."""


class Speedups(NamedTuple):
    """What this process has of them."""

    in_use: tuple[str, ...]
    """The packages whose C is in use."""
    missing: dict[str, str]
    """The others, each with the reason: a sentence without a final period."""

    def in_words(self) -> str:
        """What a person is told, without a final period."""
        if not self.missing:
            return "the speedups in C are in use"
        reasons = "; ".join(dict.fromkeys(self.missing.values()))
        which = "" if not self.in_use else f" of {', '.join(self.missing)}"
        return f"the speedups in C{which} are not in use, and the same is done in Python: {reasons}"


def speedups() -> Speedups:
    """Look what there is."""
    in_use: list[str] = []
    missing: dict[str, str] = {}
    for package in PACKAGES:
        try:
            import_module(f"{package}._speedups")
        except ModuleNotFoundError:
            missing[package] = (
                "they were not compiled when Tieline was installed, which takes Linux, a C compiler and the headers of "
                "Python; `TIELINE_BUILD_SPEEDUPS=yes` has the installation say why"
            )
        except ImportError as error:
            missing[package] = str(error)
        else:
            in_use.append(package)
    return Speedups(tuple(in_use), missing)
