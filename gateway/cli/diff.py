"""`tieline diff`: two recordings, and what differs between them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.output import DONE, NO, CliError, examples, print_json
from gateway.cli.reading import opened, telling
from gateway.cli.tones import show


def register(app: typer.Typer) -> None:
    """Add `diff`."""

    @app.command(
        epilog=examples(
            "tieline diff before/ after/",
            "tieline diff before/ after/ --json | jq '.changed[].changes'",
            "tieline diff before/ after/ --exact",
            "tieline diff mine/ theirs/ --root /home/me/shop=/builds/shop",
        )
    )
    def diff(
        one: Annotated[
            Path, typer.Argument(metavar="A", help="The recording to compare with.", readable=False)
        ],
        other: Annotated[
            Path, typer.Argument(metavar="B", help="The recording that may differ from it.", readable=False)
        ],
        exact: Annotated[
            bool, typer.Option("--exact", help="Count also what is expected to differ from run to run.")
        ] = False,
        root: Annotated[
            list[str] | None,
            typer.Option(
                metavar="A=B", help="A folder of A's run, and where it lay in B's; may be repeated."
            ),
        ] = None,
        json: Annotated[bool, typer.Option("--json", help="One JSON value.")] = False,
    ) -> int:
        """Compare two recordings call by call.

        Calls are aligned by lane, method, name and params; times of day, ids and the like do not count. Ends with 0 if
        nothing differs and with 1 if something does. How long calls took is told and is no difference.
        """
        from gateway.cli.rule_files import profiles_for
        from recordings.compare import compare
        from recordings.compared import comparison_json, comparison_lines

        pairs = [root_pair(each) for each in root or ()]
        first, second = opened(one), opened(other)
        with telling():
            mine, theirs = profiles_for(first, second, roots=pairs)
            found = compare(first, second, mine, other_profile=theirs, exact=exact)
        if json:
            print_json(comparison_json(found))
        else:
            show(comparison_lines(found, str(one), str(other)))
        return DONE if found.is_same else NO

    del diff


def root_pair(given: str) -> tuple[str, str]:
    """The two folders of an option `--root A=B`."""
    one, sign, other = given.partition("=")
    if not sign or not one or not other:
        raise CliError(f"`--root {given}` does not name two folders", hint="Write `--root A=B`")
    return one, other
