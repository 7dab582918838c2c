"""Remembered answers: the file as people read and edit it, and which answer holds for a call."""

from __future__ import annotations

import tomllib
from datetime import UTC, datetime, timedelta, timezone
from typing import Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.config.mistakes import ConfigError
from gateway.policy.capability import Need
from gateway.policy.decide import Answer, answered
from gateway.policy.grants import HEAD, Grant, Grants, grant_of, parse_grants, with_grant, without_grants
from gateway.policy.model import Policy
from gateway.policy.scope import KINDS, UNLIMITED, Scope
from gateway.protocol.capabilities import CAPABILITIES
from tests.gateway.policy import kit
from tests.gateway.policy.kit import EXEC, READ, call, decided

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
PROGRAM = "sha256:aa"
ALLOW = Grant(extension="a", capability="read", verdict="allow", scope="always", executable=PROGRAM)
DENY = Grant(extension="a", capability="read", verdict="deny", scope="always")

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=12) | st.sampled_from(
    ('a"b', "a\\b", "#", "[[grants]]", "\u2028[[grants]]#", "\n[[grants]]\n", "\x85#\x7f", "'''")
)
MOMENTS = (
    st.datetimes()
    .filter(lambda moment: 1 < moment.year < 9999)
    .flatmap(
        lambda moment: st.integers(-720, 720).map(
            lambda minutes: moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
        )
    )
)


@st.composite
def grants(draw: st.DrawFn) -> Grant:
    capability = draw(st.sampled_from((*CAPABILITIES, "tool:deploy", "tool:a.b c")))
    kind = KINDS.get(capability)
    within = UNLIMITED
    if kind is not None and draw(st.booleans()):
        choices: tuple[str, ...] = kit.CHOICES[kind]
        within = msgspec.convert(
            {kind: draw(st.lists(st.sampled_from(choices), max_size=2))}, Scope, strict=True
        )
    scope = draw(st.sampled_from(("session", "project", "always")))
    verdict: Literal["allow", "deny"] = draw(st.sampled_from(("allow", "deny")))
    return Grant(
        extension=draw(TEXTS),
        capability=capability,
        verdict=verdict,
        scope=scope,
        session=draw(TEXTS) if scope == "session" else "",
        project=draw(TEXTS) if scope == "project" else "",
        executable=draw(TEXTS) if verdict == "allow" else draw(st.just("") | TEXTS),
        manifest=draw(st.just("") | TEXTS),
        within=within,
        decided=draw(st.none() | MOMENTS),
        until=draw(st.none() | MOMENTS),
    )


def questions(listed: list[Grant]) -> list[Grant]:
    """The last answer to each question, in the order of the file."""
    last: dict[object, Grant] = {}
    for grant in listed:
        key = (grant.key, msgspec.json.encode(grant.within))
        last.pop(key, None)
        last[key] = grant
    return list(last.values())


@settings(max_examples=150, deadline=None)
@given(st.lists(grants(), max_size=4))
def test_what_is_written_is_read_as_the_same(listed: list[Grant]) -> None:
    text = ""
    for grant in listed:
        text = with_grant(text, grant)
    found = parse_grants(text).grants
    assert list(found) == questions(listed)
    assert [grant.id for grant in found] == [grant.id for grant in questions(listed)]


@settings(max_examples=100, deadline=None)
@given(st.lists(grants(), min_size=1, max_size=4), st.data())
def test_an_answer_is_taken_out_alone(listed: list[Grant], data: st.DataObject) -> None:
    text = "# mine\n"
    for grant in listed:
        text = with_grant(text, grant)
    gone = data.draw(st.sampled_from(listed)).id
    left = without_grants(text, [gone])
    assert [each.id for each in parse_grants(left).grants] == [
        each.id for each in questions(listed) if each.id != gone
    ]
    assert left.startswith("# mine\n")
    assert without_grants(text, ["nobody's"]) == text


def test_a_new_file_begins_with_what_it_is_for() -> None:
    text = with_grant("", ALLOW)
    assert text.startswith(HEAD)
    assert text == HEAD + (
        '\n[[grants]]\nextension = "a"\ncapability = "read"\nverdict = "allow"\nscope = "always"\n'
        'executable = "sha256:aa"\n'
    )


def test_limits_and_times_are_written_as_people_write_them() -> None:
    until = datetime(2026, 5, 1, 14, tzinfo=timezone(timedelta(hours=2)))
    text = with_grant("", msgspec.structs.replace(ALLOW, within=Scope(paths=["src/**"]), until=until))
    assert 'within = { paths = ["src/**"] }\n' in text
    assert "until = 2026-05-01T12:00:00Z\n" in text


def test_comments_stay_and_go_with_the_table_below_them() -> None:
    text = "# head\n\n# about a\n[[grants]]\n" + with_grant("", ALLOW).partition("[[grants]]\n")[2]
    other = msgspec.structs.replace(DENY, extension="b")
    text = with_grant(text, other)
    assert (
        without_grants(text, [other.id]).rstrip() == text.partition('[[grants]]\nextension = "b"')[0].rstrip()
    )
    left = without_grants(text, [ALLOW.id])
    assert "# head" in left
    assert "about a" not in left


def test_a_later_answer_takes_the_place_of_the_earlier_one_to_the_same_question() -> None:
    text = with_grant(with_grant("", ALLOW), DENY)
    assert list(parse_grants(text).grants) == [DENY]
    limited = msgspec.structs.replace(DENY, within=Scope(paths=["src/**"]))
    assert len(parse_grants(with_grant(text, limited)).grants) == 2


def test_what_cannot_be_taken_out_alone_is_left_as_it_is() -> None:
    inline = 'grants = [{ extension = "a", capability = "read", verdict = "deny", scope = "always" }]\n'
    assert len(parse_grants(inline).grants) == 1
    with pytest.raises(ConfigError, match=r"must be written as tables"):
        without_grants(inline, [DENY.id])


def test_an_answer_that_would_not_be_read_is_not_written() -> None:
    with pytest.raises(ConfigError, match="bound to a program"):
        with_grant("", msgspec.structs.replace(ALLOW, executable=""))


GOOD = '[[grants]]\nextension = "a"\ncapability = "read"\nverdict = "deny"\nscope = "always"\n'


@pytest.mark.parametrize(
    ("text", "line", "key", "message"),
    [
        ("version = 2\n", 1, "version", "must be 1"),
        ("# x\nverison = 1\n", 2, "verison", "is not a known key"),
        ("grants = 1\n", 1, "grants", "must be a list"),
        (GOOD + 'capabilty = "x"\n', 6, "grants[0].capabilty", "is not a known key"),
        (GOOD + GOOD.replace('"read"', '"reed"'), 8, "grants[1].capability", "is not a capability"),
        (GOOD.replace('"read"', '"tool:"'), 3, "grants[0].capability", "is not a capability"),
        (GOOD.replace("deny", "perhaps"), 4, "grants[0].verdict", ""),
        (GOOD.replace("deny", "allow"), 1, "grants[0].executable", "is missing"),
        (GOOD.replace("always", "session"), 1, "grants[0].session", "is missing"),
        (GOOD.replace("always", "project"), 1, "grants[0].project", "is missing"),
        (GOOD + "until = 2026-01-01T00:00:00\n", 6, "grants[0].until", "must have an offset"),
        (GOOD + 'within = { paths = ["/etc"] }\n', 6, "grants[0].within.paths[0]", "relative to the root"),
        (GOOD + 'within = { hosts = ["a.b"] }\n', 6, "grants[0].within.hosts", "does not limit `read`"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_key_and_nothing_is_read(
    text: str, line: int, key: str, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_grants(text, file="my.toml")
    (mistake,) = caught.value.mistakes
    assert (mistake.file, mistake.line, mistake.key) == ("my.toml", line, key)
    assert message in mistake.message


def test_what_is_no_toml_is_told_so_and_all_mistakes_come_at_once() -> None:
    with pytest.raises(ConfigError, match="is not valid TOML"):
        parse_grants("[[grants]\n")
    with pytest.raises(ConfigError) as caught:
        parse_grants("version = 3\n" + GOOD.replace("read", "reed") + GOOD.replace("deny", "allow"))
    assert len(caught.value.mistakes) == 3


def test_refusals_come_first_and_nobody_was_asked_is_none() -> None:
    both = Grants([ALLOW, DENY])
    found = both.remembered("a", READ, now=NOW, executable=PROGRAM)
    assert found is not None
    assert (found.verdict, found.id, found.scope) == ("deny", DENY.id, "always")
    assert both.remembered("b", READ, now=NOW, executable=PROGRAM) is None
    assert both.remembered("a", EXEC, now=NOW, executable=PROGRAM) is None


@pytest.mark.parametrize(
    ("grant", "verdict", "stale"),
    [
        (ALLOW, "allow", ""),
        (msgspec.structs.replace(ALLOW, executable="sha256:bb"), "none", "executable"),
        (msgspec.structs.replace(ALLOW, manifest="sha256:cc"), "none", "manifest"),
        (msgspec.structs.replace(ALLOW, until=NOW), "none", "expired"),
        (msgspec.structs.replace(ALLOW, until=NOW + timedelta(seconds=1)), "allow", ""),
        (DENY, "deny", ""),
        (msgspec.structs.replace(DENY, executable="sha256:bb"), "none", "executable"),
        (msgspec.structs.replace(DENY, manifest="sha256:cc"), "none", "manifest"),
        (msgspec.structs.replace(DENY, until=NOW), "none", "expired"),
    ],
)
def test_an_answer_holds_for_the_program_and_the_manifest_that_it_was_given_for(
    grant: Grant, verdict: str, stale: str
) -> None:
    found = Grants([grant]).remembered("a", READ, now=NOW, executable=PROGRAM)
    assert found is not None
    assert (found.verdict, found.stale, found.id) == (verdict, stale, grant.id)


def test_an_answer_for_a_session_or_a_project_holds_in_that_one() -> None:
    session = msgspec.structs.replace(ALLOW, scope="session", session="s1")
    project = msgspec.structs.replace(ALLOW, scope="project", project="/p")

    def holds(grant: Grant, *, session: str = "", project: str = "") -> bool:
        held = Grants([grant])
        found = held.remembered("a", READ, now=NOW, executable=PROGRAM, session=session, project=project)
        return found is not None and found.verdict == "allow"

    assert holds(session, session="s1", project="/q")
    assert not holds(session, session="s2", project="/p")
    assert holds(project, session="s2", project="/p")
    assert not holds(project, session="s1", project="/q")


def test_one_that_allows_covers_all_that_a_call_touches_and_one_that_refuses_any() -> None:
    within = Scope(paths=["src/**"])
    both = Need("read", "fs", paths=("src/a.py", "docs/a.md"))
    allow, deny = (msgspec.structs.replace(each, within=within) for each in (ALLOW, DENY))

    def verdict(grant: Grant, need: Need, *, folds_case: bool = False) -> str:
        found = Grants([grant]).remembered("a", need, now=NOW, executable=PROGRAM, folds_case=folds_case)
        return "" if found is None else found.verdict

    assert (verdict(allow, READ), verdict(deny, READ)) == ("allow", "deny")
    assert (verdict(allow, both), verdict(deny, both)) == ("", "deny")
    hidden, shouted = (Need("read", "fs", paths=(path,)) for path in ("src/.env", "SRC/a.py"))
    assert (verdict(allow, hidden), verdict(deny, hidden)) == ("", "deny")
    assert verdict(deny, shouted) == ""
    assert verdict(deny, shouted, folds_case=True) == "deny"
    assert verdict(allow, shouted, folds_case=True) == ""


def test_an_answer_about_hosts_variables_or_a_tool_is_about_those() -> None:
    def verdict(grant: Grant, need: Need) -> str:
        found = Grants([grant]).remembered("a", need, now=NOW)
        return "" if found is None else found.verdict

    hosts = msgspec.structs.replace(DENY, capability="http", within=Scope(hosts=["*.example.com"]))
    assert verdict(hosts, Need("http", "http", hosts=("api.example.com:8443",))) == "deny"
    assert verdict(hosts, Need("http", "http", hosts=("example.com:443",))) == ""
    env = msgspec.structs.replace(DENY, capability="env", within=Scope(env=["API_KEY"]))
    assert verdict(env, Need("env", "env", env=("PATH", "API_KEY"))) == "deny"
    assert verdict(env, Need("env", "env", env=("PATH",))) == ""
    tool = msgspec.structs.replace(DENY, capability="tool:deploy")
    assert verdict(tool, Need("tool", "tool", "deploy")) == "deny"
    assert verdict(tool, Need("tool", "tool", "lint")) == ""


def test_the_hash_of_all_answers_knows_no_order_and_none_has_none() -> None:
    assert Grants().hash == ""
    assert Grants([ALLOW, DENY]).hash == Grants([DENY, ALLOW]).hash != Grants([ALLOW]).hash
    assert len(ALLOW.id) == 12
    assert msgspec.structs.replace(ALLOW, decided=NOW).id == ALLOW.id


def test_an_answered_question_becomes_what_is_to_be_remembered_and_holds_for_the_next_call() -> None:
    policy = Policy(default_caps=(), deny_caps=())
    facts = msgspec.structs.replace(
        call(), executable=PROGRAM, manifest="sha256:m", project="/p", session="s1"
    )
    asked = decided(policy, facts)
    assert asked.verdict == "ask"
    grant = grant_of(answered(asked, Answer(allowed=True, keep="project")), now=NOW)
    assert grant == Grant(
        extension="a", capability="read", verdict="allow", scope="project", project="/p",
        executable=PROGRAM, manifest="sha256:m", decided=NOW,
    )  # fmt: skip
    assert grant is not None
    held = parse_grants(with_grant("", grant))
    found = held.remembered(
        "a", READ, now=NOW, executable=PROGRAM, manifest="sha256:m", session="s2", project="/p"
    )
    again = decided(policy, msgspec.structs.replace(facts, remembered=found))
    assert (again.verdict, again.reason, again.rule) == ("allow", "granted", grant.id)


def test_a_tool_is_remembered_by_its_name_and_a_no_is_remembered_too() -> None:
    facts = msgspec.structs.replace(call(Need("tool", "tool", "deploy")), session="s1")
    no = answered(decided(Policy(), facts), Answer(allowed=False, keep="session"))
    grant = grant_of(no, now=NOW)
    assert grant is not None
    assert (grant.capability, grant.verdict, grant.session) == ("tool:deploy", "deny", "s1")


def test_what_was_answered_once_or_by_nobody_is_not_remembered() -> None:
    asked = decided(Policy(default_caps=()), call())
    assert grant_of(asked, now=NOW) is None
    assert grant_of(answered(asked, Answer(allowed=True)), now=NOW) is None
    assert grant_of(answered(asked, Answer(allowed=None, keep="always")), now=NOW) is None


def test_the_text_is_plain_toml() -> None:
    table = tomllib.loads(with_grant("", msgspec.structs.replace(DENY, until=NOW)))
    assert table["grants"] == [
        {"extension": "a", "capability": "read", "verdict": "deny", "scope": "always", "until": NOW}
    ]
