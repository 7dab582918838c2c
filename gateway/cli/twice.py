"""What `tieline record --twice` does once the client has left: the same requests to a second start of the server.

Owns that second run, which leaves nothing behind, and what is told of it. The rules themselves are proposed by
`recordings.propose`, and told as `tieline rules` tells them.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.cli.output import tell_warning
from gateway.cli.reading import opened, telling

if TYPE_CHECKING:
    from gateway.config import Config

RULES = "replay.toml"
PATIENCE_S = 30.0
"""How long an answer of the second run is waited for."""


def twice(directory: Path, config: Config, *, write: bool) -> None:
    """Propose rules from what differs between a recording and a second run; with `write`, beside the recording.

    Raises:
        CliError: If the recording cannot be read, or the rules cannot be written.
    """
    from gateway.cli.rule_files import add_rules, profiles_for
    from gateway.cli.rules import tell_rules
    from gateway.cli.verified import play
    from recordings.audit import audit
    from recordings.formats import with_schemas
    from recordings.propose import propose, rules_toml

    if not directory.exists():
        tell_warning("nothing was recorded, so there is nothing to send again")
        return
    first = opened(directory)
    kept = Path(tempfile.mkdtemp(prefix="tieline-twice-"))
    try:
        with _leaving_when_told():
            unanswered = play(first, config, kept / "again", timeout_s=PATIENCE_S)
        with telling():
            second = opened(kept / "again")
            mine, theirs = profiles_for(first, second)
            found = propose(
                first, second, with_schemas(mine, first), other_profile=with_schemas(theirs, second)
            )
            tried = mine.with_rules(each.rule for each in found.proposals)
            judged = audit(tried, first)
    except KeyboardInterrupt:
        tell_warning(f"the second run was cut short; `{directory}` is whole")
        return
    finally:
        shutil.rmtree(kept, ignore_errors=True)
    for seq in unanswered:
        tell_warning(f"the second run gave no answer to request {seq}")
    path = directory.parent / RULES if write and found.proposals else None
    text = rules_toml(found.proposals)
    if path is not None:
        add_rules(path, text)
    else:
        sys.stderr.write(text)
    tell_rules(found, judged, tried, path)


@contextmanager
def _leaving_when_told() -> Generator[None]:
    """A client ends its servers soon after it has left: then the second server has to end too."""

    def leave(number: int, frame: object) -> None:
        del number, frame
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
