"""`tieline policy`: why something may happen or not, whether a policy does what it is for, and what was answered."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.cli.arguments import any_config
from gateway.cli.options import JsonOption, RecordingArgument
from gateway.cli.output import (
    BAD_INPUT,
    DONE,
    NO,
    CliError,
    console,
    counted,
    examples,
    print_json,
    table,
)
from gateway.cli.policy_source import facts_of, need_from, policy_of, read_grants, text_of
from gateway.cli.reading import opened, telling

if TYPE_CHECKING:
    from gateway.policy.again import Again
    from gateway.policy.cases import Outcome
    from gateway.policy.grants import Grant
    from recordings.reader import Recording

ConfigOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The configuration. Default: what lies here.")
]
PolicyOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A policy of its own, TOML or JSON, instead.")
]
GrantsOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The remembered answers. Default: the configuration's.")
]


def register(app: typer.Typer) -> None:
    """Add `policy explain`, `test`, `replay` and `grants`."""
    about = "Explain, test and replay decisions about extensions."
    policy = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=about)
    _add_explain(policy)
    _add_test(policy)
    _add_replay(policy)
    _add_grants(policy)
    app.add_typer(policy, name="policy")


def _add_explain(family: typer.Typer) -> None:
    @family.command(
        epilog=examples(
            "tieline policy explain notes read --path src/a.md",
            "tieline policy explain notes http --host api.example.com --manifest notes/extension.json",
            "tieline policy explain notes exec --policy strict.toml --signal unsigned=600",
        )
    )
    def explain(
        extension: Annotated[
            str, typer.Argument(metavar="EXT", help="The extension, by its name as a peer.")
        ],
        capability: Annotated[str, typer.Argument(help="What it asks for; `tool:NAME` is one tool.")],
        path: Annotated[list[str] | None, typer.Option(help="A path that the call is about.")] = None,
        host: Annotated[list[str] | None, typer.Option(help="A host or a URL that it goes to.")] = None,
        env: Annotated[list[str] | None, typer.Option(help="A variable that it reads.")] = None,
        method: Annotated[str | None, typer.Option(help="The host call. Default: the usual one.")] = None,
        manifest: Annotated[
            Path | None,
            typer.Option(metavar="FILE", help="`extension.json` or a manifest. Default: where it is found."),
        ] = None,
        signal: Annotated[
            list[str] | None,
            typer.Option(metavar="NAME=N", help="Evidence, in thousandths, instead of what is measured."),
        ] = None,
        ui: Annotated[bool, typer.Option("--ui/--no-ui", help="Whether there is somebody to ask.")] = True,
        config: ConfigOption = None,
        policy: PolicyOption = None,
        grants: GrantsOption = None,
        json: JsonOption = False,
    ) -> int:
        """Decide about a call that nobody makes, and show how.

        Shows every layer that has spoken, and the sum of the evidence in whole milli-nats, to be done again by hand.
        Ends with 0 where the call is allowed, and with 1 where it is asked about or denied.
        """
        from gateway.policy.decide import decide
        from gateway.policy.explain import lines
        from gateway.policy.record import x_of
        from gateway.policy.rules import Rules

        settings = any_config(config)
        rules = Rules(policy_of(policy, settings))
        need = need_from(capability, method, settings, paths=path or (), hosts=host or (), env=env or ())
        facts, known = facts_of(
            extension, need, settings, manifest=manifest, signals=signal or (), has_ui=ui, grants=grants
        )
        decision = decide(rules, facts, grants=known)
        if json:
            print_json(x_of(decision))
        else:
            sys.stdout.writelines(f"{line}\n" for line in lines(decision))
        return DONE if decision.verdict == "allow" else NO

    del explain


def _add_test(family: typer.Typer) -> None:
    @family.command(
        epilog=examples(
            "tieline policy test cases.toml", "tieline policy test cases.toml --policy strict.toml --json"
        )
    )
    def test(
        cases: Annotated[Path, typer.Argument(metavar="CASES", help="The file with `[[cases]]`.")],
        config: ConfigOption = None,
        policy: PolicyOption = None,
        json: JsonOption = False,
    ) -> int:
        """Try a policy on calls, each with what is to become of it.

        Ends with 1 if anything else becomes of one. Rules that decide no case are told on stderr.
        """
        from gateway.policy.cases import judged, parse_cases, untried
        from gateway.policy.rules import Rules

        made = policy_of(policy, any_config(config))
        rules = Rules(made)
        outcomes = [judged(case, rules) for case in parse_cases(text_of(cases), file=str(cases))]
        for name in untried(made, outcomes):
            sys.stderr.write(f"note: no case is decided by the rule `{name}`\n")
        if json:
            print_json([_case_json(outcome) for outcome in outcomes])
        else:
            sys.stdout.writelines(f"{line}\n" for line in case_lines(outcomes))
        return NO if any(outcome.wrong for outcome in outcomes) else DONE

    del test


def case_lines(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """What became of the cases: a line for each that does not hold, with how its decision came about."""
    from gateway.policy.explain import headline

    failed = [outcome for outcome in outcomes if outcome.wrong]
    for outcome in failed:
        yield f"`{outcome.case.name}` {' and '.join(outcome.wrong)}"
        yield f"  {headline(outcome.decision)}"
    if failed:
        yield f"{len(failed)} of {counted(len(outcomes), 'case')} {'does' if len(failed) == 1 else 'do'} not hold"
    else:
        yield f"{counted(len(outcomes), 'case')} {'holds' if len(outcomes) == 1 else 'hold'}"


def _case_json(outcome: Outcome) -> dict[str, Any]:
    from gateway.policy.record import x_of

    return {
        "name": outcome.case.name,
        "holds": not outcome.wrong,
        "wrong": list(outcome.wrong),
        "decision": x_of(outcome.decision),
    }


def _add_replay(family: typer.Typer) -> None:
    @family.command(
        epilog=examples(
            "tieline policy replay session/",
            "tieline policy replay session/ --policy strict.toml",
            "tieline policy replay session/ --policy strict.toml --all --json",
        )
    )
    def replay(
        directory: RecordingArgument,
        policy: Annotated[
            Path | None,
            typer.Option(metavar="FILE", help="The policy. Default: the one that was recorded."),
        ] = None,
        every: Annotated[bool, typer.Option("--all", help="Show what stays as it is too.")] = False,
        json: JsonOption = False,
    ) -> int:
        """Make a recording's decisions again, and show what differs.

        Takes the recorded facts and, where a person is asked again, the recorded answer. Without --policy the policy of
        the recording is taken: then nothing may change, not even a reason. Ends with 1 if anything does.
        """
        from gateway.policy.again import again
        from gateway.policy.rules import Rules

        recording = opened(directory)
        rules = Rules(policy_of(policy, _recorded_config(recording)))
        with telling():
            frames = [(f.seq, f.re, f.x or {}) for f in recording if f.kind == "policy"]
        found = again(frames, rules)
        changed = [each for each in found if each.changes or (policy is None and each.changes_reason)]
        if json:
            print_json([_again_json(each) for each in (found if every else changed)])
        else:
            shown = found if every else changed
            if shown:
                console().print(
                    table(("seq", "extension", "call", "was", "now", "because"), map(_again_row, shown))
                )
            sys.stdout.write(f"{again_summary(found, changed)}\n")
        return NO if changed else DONE

    del replay


def _recorded_config(recording: Recording) -> Any:
    from gateway.config.recorded import config_of

    header = recording.header
    with telling():
        return config_of(header.settings, list(header.peers))[0]


def _again_row(each: Again) -> tuple[str, ...]:
    need = each.x.get("facts", {}).get("need", {})
    touched = [str(one) for kind in ("paths", "hosts", "env") for one in need.get(kind, ())]
    call = " ".join(part for part in (each.x.get("capability", ""), need.get("tool", ""), *touched) if part)
    now = each.now
    because = each.why if now is None else f"{now.reason} {now.rule}".strip()
    if each.unsure:
        because += " (nobody was asked then)"
    return (
        str(each.seq), str(each.x.get("facts", {}).get("extension", "")), call, each.was,
        each.verdict or each.was, because,
    )  # fmt: skip


def again_summary(found: Sequence[Again], changed: Sequence[Again]) -> str:
    """How many decisions there are, and how many of them change, and to what."""
    ways: dict[str, int] = {}
    for each in changed:
        way = f"{each.was} to {each.verdict}" if each.changes else f"{each.was} for another reason"
        ways[way] = ways.get(way, 0) + 1
    skipped = sum(each.now is None for each in found)
    said = f"{counted(len(found), 'decision')}, {len(changed)} changed"
    if ways:
        said += ": " + ", ".join(f"{count} from {way}" for way, count in sorted(ways.items()))
    return said + (f"; {skipped} were no matter of policy" if skipped else "")


def _again_json(each: Again) -> dict[str, Any]:
    from gateway.policy.record import x_of

    return {
        "seq": each.seq,
        "was": each.x,
        "now": None if each.now is None else x_of(each.now),
        "changes": each.changes,
        "changes_reason": each.changes_reason,
        "unsure": each.unsure,
        "why": each.why,
    }


def _add_grants(family: typer.Typer) -> None:
    grants = typer.Typer(
        no_args_is_help=True, rich_markup_mode=None, help="List and revoke remembered answers."
    )

    @grants.command(
        "list", epilog=examples("tieline policy grants list", "tieline policy grants list --json")
    )
    def list_(config: ConfigOption = None, grants: GrantsOption = None, json: JsonOption = False) -> int:
        """List what was answered when extensions asked for something."""
        path = _grants_path(config, grants)
        found: Sequence[Grant] = read_grants(path).grants
        if json:
            print_json([{"id": grant.id, "grant": grant} for grant in found])
        elif found:
            columns = ("id", "extension", "capability", "answer", "for", "limits")
            console().print(table(columns, map(_grant_row, found)))
        else:
            sys.stdout.write(f"nothing is remembered in `{path}`\n")
        return DONE

    @grants.command(
        epilog=examples(
            "tieline policy grants revoke 3f2a91c07bde", "tieline policy grants revoke --extension notes"
        )
    )
    def revoke(
        ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="As listed.")] = None,
        extension: Annotated[str | None, typer.Option(help="All answers about this extension.")] = None,
        config: ConfigOption = None,
        grants: GrantsOption = None,
    ) -> int:
        """Forget answers, so that it is asked again.

        A gateway that runs takes it over with the next decision. Ends with 1 if there is nothing to forget.
        """
        return revoke_grants(_grants_path(config, grants), ids or (), extension)

    family.add_typer(grants, name="grants")
    del list_, revoke


def _grants_path(config: Path | None, given: Path | None) -> Path:
    from gateway.config.places import grants_file

    return given if given is not None else grants_file(any_config(config))


def _grant_row(grant: Grant) -> tuple[str, ...]:
    where = {"session": grant.session, "project": grant.project}.get(grant.scope, "")
    limits = [f"{kind} {', '.join(getattr(grant.within, kind)) or 'none'}" for kind in grant.within.kinds]
    limits += [f"until {grant.until:%Y-%m-%d %H:%M %Z}"] if grant.until is not None else []
    return (
        grant.id, grant.extension, grant.capability, grant.verdict, f"{grant.scope} {where}".strip(),
        "; ".join(limits),
    )  # fmt: skip


def revoke_grants(path: Path, ids: Sequence[str], extension: str | None) -> int:
    """Take answers out of the file, and say which."""
    from gateway.runtime.host.grant_file import GrantFile

    if bool(ids) == (extension is not None):
        raise CliError("name either answers by their ids or one `--extension`")
    found: Sequence[Grant] = read_grants(path).grants
    gone = [grant for grant in found if grant.id in ids or grant.extension == extension]
    missing = sorted(set(ids) - {grant.id for grant in gone})
    if missing:
        raise CliError(
            f"no answer has the id {', '.join(f'`{each}`' for each in missing)}",
            hint="`tieline policy grants list` shows them",
            code=NO,
        )
    if gone:
        try:
            GrantFile(path).forget(grant.id for grant in gone)
        except OSError as error:
            raise CliError(
                f"`{path}` cannot be written: {error.strerror or error}", code=BAD_INPUT
            ) from error
    for grant in gone:
        sys.stdout.write(
            f"forgotten: {grant.verdict} {grant.capability} for {grant.extension} ({grant.id})\n"
        )
    if not gone:
        sys.stdout.write(f"nothing is remembered about `{extension}`\n")
    return DONE if gone else NO
