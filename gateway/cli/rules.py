"""`tieline rules`: what differs between two recordings of one session, as rules; and whether rules are any good."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.cli.diff import root_pair
from gateway.cli.options import JsonOption
from gateway.cli.output import DONE, NO, counted, examples, print_json, tell_warning
from gateway.cli.reading import opened, telling

if TYPE_CHECKING:
    from recordings.audit import Audit, Merge
    from recordings.profile import Profile, Rule
    from recordings.propose import Proposed


def register(app: typer.Typer) -> None:
    """Add `rules`."""

    @app.command(
        epilog=examples(
            "tieline rules first/ second/",
            "tieline rules first/ second/ --write replay.toml",
            "tieline rules session/ --rules replay.toml",
        )
    )
    def rules(
        one: Annotated[Path, typer.Argument(metavar="A", help="A recording.")],
        other: Annotated[
            Path | None, typer.Argument(metavar="B", help="Another recording of the same session.")
        ] = None,
        write: Annotated[
            Path | None,
            typer.Option(
                metavar="FILE", help="Add the rules to this file, such as `replay.toml` or `tieline.toml`."
            ),
        ] = None,
        rules: Annotated[
            Path | None,
            typer.Option(
                metavar="FILE", help="The rules that there are. Default: `replay.toml` in A or next to it."
            ),
        ] = None,
        root: Annotated[
            list[str] | None,
            typer.Option(
                metavar="A=B", help="A folder of A's run, and where it lay in B's; may be repeated."
            ),
        ] = None,
        json: JsonOption = False,
    ) -> int:
        """Propose rules for replays from two recordings.

        What differs twice is expected to differ again: each place becomes a rule, with what was seen as a comment. All
        rules are then tried on A: one that never fires, or that makes two different requests the same, is told, and the
        command ends with 1. With A alone, the rules that there are are tried.
        """
        from gateway.cli.rule_files import add_rules, profiles_for, table_of
        from recordings.audit import audit
        from recordings.formats import with_schemas
        from recordings.propose import propose, rules_toml

        pairs = [root_pair(each) for each in root or ()]
        known = rules or (write if write is not None and write.exists() else None)
        first = opened(one)
        found = None
        with telling():
            second = None if other is None else opened(other)
            mine, theirs = profiles_for(first, second, rules=known, roots=pairs)
            if second is not None:
                found = propose(
                    first, second, with_schemas(mine, first), other_profile=with_schemas(theirs, second)
                )
            proposals = () if found is None else found.proposals
            tried = mine.with_rules(each.rule for each in proposals)
            judged = audit(tried, first)
        text = rules_toml(proposals, table=table_of(write))
        if write is not None and proposals:
            add_rules(write, text)
        if json:
            print_json(_json(found, judged, tried))
        else:
            if write is None:
                sys.stdout.write(text)
            tell_rules(found, judged, tried, write)
        return DONE if judged.is_good else NO

    del rules


def tell_rules(found: Proposed | None, judged: Audit, tried: Profile, written: Path | None) -> None:
    """Say on stderr what came of it."""
    for number in judged.silent:
        tell_warning(f"rule {number + 1} ({_named(tried.rules[number])}) never fires")
    for merge in judged.merges:
        if not merge.by_values:
            tell_warning(_merged(merge))
    if found is None:
        sys.stderr.write(f"tried {counted(len(tried.rules), 'rule')}\n")
        return
    only = " and ".join(
        f"{count} only in {name}" for count, name in zip(found.alone, "AB", strict=True) if count
    )
    if only:
        tell_warning(f"calls {only}: no rule makes up for that; are these recordings of one session?")
    for seqs in found.outcomes[:10]:
        tell_warning(
            f"call {seqs[0]} of A ended otherwise than call {seqs[1]} of B: no rule makes up for that"
        )
    said = f"{counted(len(found.proposals), 'rule')} proposed from {counted(found.calls, 'call')}"
    added = f", added to `{written}`" if written is not None and found.proposals else ""
    sys.stderr.write(f"{said}{added}\n")


def _merged(merge: Merge) -> str:
    one, other = merge.seqs
    return (
        f"rule {merge.number + 1} ({_named(merge.rule)}) makes {merge.requests} different requests the same, "
        f"such as {one} and {other}: a replay would take the one for the other"
    )


def _named(rule: Rule) -> str:
    if rule.at is not None:
        return f"at {rule.at}"
    if rule.format is not None:
        return f"format {rule.format}"
    return f"consume {rule.consume}"


def _json(found: Proposed | None, judged: Audit, tried: Profile) -> dict[str, Any]:
    value: dict[str, Any] = {
        "rules": [
            {"rule": rule, "fired": fired} for rule, fired in zip(tried.rules, judged.fired, strict=True)
        ],
        "silent": judged.silent,
        "merges": judged.merges,
    }
    if found is not None:
        value |= {
            "proposals": found.proposals,
            "calls": found.calls,
            "alone": found.alone,
            "outcomes": found.outcomes,
        }
    return value
