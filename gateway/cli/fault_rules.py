"""Where the fault rules of a replay come from: the command line, and a `faults.toml` beside the recording.

Owns the reading of that file. What a rule may say is `recordings.faulttext`'s business.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.cli.output import CliError

if TYPE_CHECKING:
    from recordings.faultrules import FaultRule

FILE = "faults.toml"


def rules_for(recording: Path, given: Sequence[str]) -> tuple[FaultRule, ...]:
    """The rules that are put into a replay: those beside the recording, and those that were given."""
    path = recording / FILE
    if not given and not path.exists():
        return ()
    from recordings.faulttext import FaultRuleError, rule_of, rules_of

    try:
        kept = (
            rules_of(tomllib.loads(path.read_text()).get("fault", []), file=str(path))
            if path.exists()
            else ()
        )
        return (*kept, *(rule_of(text) for text in given))
    except tomllib.TOMLDecodeError as error:
        raise CliError(f"`{path}` is no TOML: {error}") from error
    except FaultRuleError as error:
        raise CliError(str(error), hint="See `tieline faults --help` for the rules") from error
