"""The host call `tool`: the built-in tools answer as Pi's own do, and touch nothing that the call may not."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from gateway.calls.host.bounds import Bounds
from gateway.policy.model import Rule
from gateway.protocol.errors import Fault
from gateway.runtime.host.beneath import Folders
from gateway.runtime.host.registry import Ports
from gateway.runtime.host.workers import Stop
from tests import tooling
from tests.gateway.runtime.host.kit import Session, with_rules
from tests.gateway.runtime.process_kit import until

BIN = str(Path(sys.executable).parent)
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


class Pi:
    """Pi's own tools, in a process of theirs."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [str(tooling.node()), str(tooling.HERE / "pi_tools.mjs"), str(tooling.script("pi-tools"))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"},
        )  # fmt: skip

    def call(self, cwd: Path, tool: str, **given: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"tool": tool, "cwd": str(cwd), "input": given}) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@pytest.fixture(scope="module")
def pi() -> Iterator[Pi]:
    one = Pi()
    yield one
    one.close()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    top = tmp_path / "project"
    (top / "src" / "deep").mkdir(parents=True)
    (top / "src" / "a.py").write_text("alpha = 1\nbeta = alpha\n\ngamma = ALPHA\n")
    (top / "src" / "deep" / "b.py").write_text("alpha\r\nomega\r\nalpha omega\r\n")
    (top / "notes.md").write_text("one\ntwo\nthree")
    (top / ".hidden").write_text("alpha\n")
    (top / "empty").write_text("")
    (top / "blob.bin").write_bytes(b"alpha\0alpha\n")
    (top / "dot.png").write_bytes(PNG)
    (top / ".git").mkdir()
    (top / ".gitignore").write_text("build/\n*.log\n!keep.log\n")
    (top / "build").mkdir()
    (top / "build" / "out.py").write_text("alpha\n")
    (top / "x.log").write_text("alpha\n")
    (top / "keep.log").write_text("alpha\n")
    (top / "dangling").symlink_to("nothing")
    (top / "link").symlink_to("src")
    (tmp_path / "secret").write_text("alpha secret\n")
    (top / "leak").symlink_to("../secret")
    return top


def tool(session: Session, name: str, **given: Any) -> dict[str, Any]:
    return asyncio.run(session.call("tool", name=name, input=given))


def text(session: Session, name: str, **given: Any) -> str:
    return tool(session, name, **given)["content"][0]["text"]


def fault(session: Session, name: str, **given: Any) -> Fault:
    return asyncio.run(session.fault("tool", name=name, input=given))


def rows_of(result: dict[str, Any]) -> list[str]:
    return sorted(result["content"][0]["text"].splitlines())


LONG = "".join(f"line {number}\n" for number in range(2500))
WIDE = "x" * 300 + "\n"


@pytest.mark.parametrize(
    ("content", "given"),
    [
        ("one\ntwo\nthree", {}), ("one\n", {}), ("", {}), ("\n\n", {}), ("one\ntwo\nthree\n", {"offset": 2}),
        ("one\ntwo\nthree\n", {"limit": 1}), ("one\ntwo\nthree\n", {"offset": 2, "limit": 1}),
        ("one\ntwo\nthree\n", {"offset": 4}), ("one\ntwo\nthree\n", {"limit": 3}), ("one\ntwo\n", {"limit": 99}),
        (LONG, {}), (LONG, {"offset": 600}), (LONG, {"offset": 400, "limit": 2100}), (LONG, {"limit": 2000}),
        (LONG * 40, {"offset": 70_000}), (LONG * 40, {"offset": 99_999}),
        (WIDE * 500, {}), (WIDE * 500, {"limit": 200}), ("x" * 60_000 + "\nend\n", {}),
        ("a\n" + "x" * 60_000, {"offset": 2}),
        ("short\n" + "x" * 400_000, {}), ("é\u4e16\n" * 9000, {}), ("a\r\nb\r\n", {}), ("\ufeffbom\n", {}),
        (WIDE * 170 + "end", {"limit": 170}),
    ],
)  # fmt: skip
def test_a_file_is_read_as_pi_reads_it(
    pi: Pi, session: Session, place: Path, content: str, given: dict[str, Any]
) -> None:
    (place / "file").write_bytes(content.encode())
    theirs = pi.call(place, "read", path="file", **given)["ok"]
    assert tool(session, "read", path="file", **given) == theirs


def test_a_picture_is_read_as_pi_reads_it(pi: Pi, session: Session, place: Path) -> None:
    assert tool(session, "read", path="dot.png") == pi.call(place, "read", path="dot.png")["ok"]


def test_a_picture_that_is_too_long_for_a_message_is_left_out(session: Session, place: Path) -> None:
    (place / "big.png").write_bytes(PNG + b"\0" * 4 * 1024 * 1024)
    found = tool(session, "read", path="big.png")
    assert len(found["content"]) == 1
    assert "omitted" in found["content"][0]["text"]


def test_a_line_beyond_the_end_is_an_invalid_request(pi: Pi, session: Session, place: Path) -> None:
    assert "beyond end of file (3 lines total)" in pi.call(place, "read", path="notes.md", offset=4)["error"]
    found = fault(session, "read", path="notes.md", offset=4)
    assert (found.code, "which has 3 lines" in found.message) == ("invalid_request", True)


def test_what_is_missing_has_its_posix_name(session: Session) -> None:
    for name in ("read", "ls", "grep", "find", "edit"):
        given: dict[str, Any] = {"grep": {"pattern": "x"}, "find": {"pattern": "x"}}.get(name, {})
        if name == "edit":
            given = {"edits": [{"oldText": "a", "newText": "b"}]}
        found = fault(session, name, path="nothing", **given)
        assert (found.code, found.details["errno"]) == ("io", "ENOENT"), name


def test_a_file_is_written_as_pi_writes_it(pi: Pi, session: Session, place: Path) -> None:
    given = {"path": "new/deep/file.txt", "content": "héllo\n"}
    found = tool(session, "write", **given)
    assert (place / "new" / "deep" / "file.txt").read_text() == "héllo\n"
    assert found == pi.call(place, "write", **given)["ok"]


EDITS: list[tuple[str, list[tuple[str, str]]]] = [
    ("one\ntwo\nthree\n", [("two", "2")]),
    ("one\ntwo\nthree", [("three", "3")]),
    ("one\ntwo\nthree\n", [("one\n", ""), ("three\n", "3\nthree and a half\n")]),
    ("a\r\nb\r\nc\r\n", [("b", "B\nB2")]),
    ("a\rb\rc", [("b\nc", "d")]),
    ("a\r\nb\nc\r\n", [("b\nc", "x\ny")]),
    ("\ufeffone\ntwo\n", [("one", "1")]),
    ("say \u201chello\u201d \u2014 now  \nnext\n", [('"hello" - now\nnext', "said")]),
    ("keep \u2019this\u2019  \nchange \u2018that\u2019\nkeep\t\n", [("change 'that'", "changed")]),
    ("x\n" * 50 + "mark\n" + "x\n" * 50, [("mark", "MARK")]),
    (
        "".join(f"l{n}\n" for n in range(60)),
        [("l10\n", "L10\n"), ("l40\n", ""), ("l17\nl18\n", "new\nlines\nhere\n")],
    ),
    ("def f():\n    return 1\n", [("    return 1\n", "    x = 1\n    return x\n")]),
    ("a\n\n\nb\n", [("\n\n\n", "\n")]),
    ("one", [("one", "")]),
    ("tail\n", [("tail\n", "tail")]),
]


@pytest.mark.parametrize(("content", "edits"), EDITS, ids=range(len(EDITS)))
def test_an_edit_changes_and_shows_what_pi_changes_and_shows(
    pi: Pi, session: Session, place: Path, content: str, edits: list[tuple[str, str]]
) -> None:
    file = place / "file"
    given = {"path": "file", "edits": [{"oldText": old, "newText": new} for old, new in edits]}
    file.write_bytes(content.encode())
    theirs = pi.call(place, "edit", **given)
    after = file.read_bytes()
    file.write_bytes(content.encode())
    assert tool(session, "edit", **given) == theirs["ok"]
    assert file.read_bytes() == after


@pytest.mark.parametrize(
    ("content", "edits", "reason"),
    [("a\n", [("b", "c")], "not_found"), ("a a\n", [("a", "c")], "ambiguous"), ("a\n", [("", "c")], "empty"),
     ("abc\n", [("ab", "x"), ("bc", "y")], "overlap"), ("a\n", [("a", "a")], "no_change"),
     ("'x' \u2018x\u2019\n", [("'x'", "y")], "ambiguous")],
)  # fmt: skip
def test_an_edit_that_pi_refuses_is_refused(
    pi: Pi, session: Session, place: Path, content: str, edits: list[tuple[str, str]], reason: str
) -> None:
    (place / "file").write_text(content)
    given = {"path": "file", "edits": [{"oldText": old, "newText": new} for old, new in edits]}
    assert "error" in pi.call(place, "edit", **given)
    found = fault(session, "edit", **given)
    assert (found.code, found.reason) == ("invalid_request", f"edit_{reason}")
    assert (place / "file").read_text() == content


@pytest.mark.parametrize(
    "given",
    [{"oldText": "a", "newText": "b"}, {"edits": {"oldText": "a", "newText": "b"}},
     {"edits": '[{"oldText": "a", "newText": "b"}]'}, {"edits": '{"oldText": "a", "newText": "b"}'}],
)  # fmt: skip
def test_the_spellings_of_an_edit_that_models_use_are_read(
    session: Session, place: Path, given: dict[str, Any]
) -> None:
    (place / "file").write_text("a\n")
    tool(session, "edit", path="file", **given)
    assert (place / "file").read_text() == "b\n"


def test_what_is_no_text_is_not_edited(session: Session, place: Path) -> None:
    (place / "file").write_bytes(b"a\xff\n")
    found = fault(session, "edit", path="file", edits=[{"oldText": "a", "newText": "b"}])
    assert (found.reason, (place / "file").read_bytes()) == ("not_text", b"a\xff\n")


PIECES = st.text(st.sampled_from("ab \n\r\u2019'"), max_size=12)


@given(before=PIECES, old=st.text(st.sampled_from("ab \n'"), min_size=1, max_size=3), new=PIECES)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_edit_leaves_what_pi_leaves(
    pi: Pi, session: Session, place: Path, before: str, old: str, new: str
) -> None:
    # Pi counts how often blanks alone are there as if they were nothing, and refuses them nearly always.
    assume(old.strip())
    file = place / "file"
    given = {"path": "file", "edits": [{"oldText": old, "newText": new}]}
    file.write_bytes(before.encode())
    theirs = pi.call(place, "edit", **given)
    # Where the last line is blanks alone, Pi loses count of lines when it compares loosely, and gives up.
    assume("different line count" not in theirs.get("error", ""))
    after = file.read_bytes()
    file.write_bytes(before.encode())
    if "error" in theirs:
        assert fault(session, "edit", **given).code == "invalid_request"
    else:
        tool(session, "edit", **given)
    assert file.read_bytes() == after


def test_two_edits_of_one_file_at_once_are_both_made(session: Session, place: Path) -> None:
    (place / "file").write_text("".join(f"<{number}>\n" for number in range(20)))

    async def scene() -> None:
        await asyncio.gather(
            *(
                session.call(
                    "tool",
                    name="edit",
                    input={"path": "file", "edits": [{"oldText": f"<{n}>", "newText": f"[{n}]"}]},
                )
                for n in range(20)
            )
        )

    asyncio.run(scene())
    assert (place / "file").read_text() == "".join(f"[{number}]\n" for number in range(20))


@pytest.mark.parametrize(
    ("command", "keys"),
    [("echo out", ()), ("echo err >&2", ()), ("exit 3", ()), ("echo said; exit 4", ()), ("true", ()),
     ("kill -TERM $$", ()),
     ("seq 3000", ("truncation",)), ("printf 'x%.0s' $(seq 60000)", ("truncation",)),
     ("for i in $(seq 400); do printf '%0300d\\n' $i; done", ("truncation",)), ("printf 'a\\xffb\\n'", ())],
)  # fmt: skip
def test_a_command_answers_as_pi_answers(
    pi: Pi, session: Session, place: Path, command: str, keys: tuple[str, ...]
) -> None:
    theirs = pi.call(place, "bash", command=command)["ok"]
    ours = tool(session, "bash", command=command)
    assert ours.get("isError", False) == theirs.get("isError", False)
    assert set(ours.get("details", ())) == set(keys)
    assert ours.get("details", {}).get("truncation") == theirs.get("details", {}).get("truncation")
    for name in ("output", "exit_code", "truncated"):
        assert ours["structuredContent"][name] == theirs["structuredContent"][name]
    # Pi leaves the whole output in a file outside the project and says where; we write nowhere.
    words = theirs["content"][0]["text"]
    if keys:
        before, _, after = words.partition(". Full output: ")
        words = before + after[after.index("]") :]
    assert ours["content"][0]["text"] == words


def test_what_a_command_says_on_two_streams_stays_in_order(session: Session) -> None:
    """Pi reads two pipes, in whatever order they come."""
    assert text(session, "bash", command="echo out; echo err >&2; echo out") == "out\nerr\nout\n"


def test_a_command_over_its_time_is_a_timeout_that_says_what_was_said(session: Session) -> None:
    found = fault(session, "bash", command="echo begun; exec sleep 600", timeout=2)
    assert (found.code, found.reason, found.details["output"]) == ("timeout", "command_time", "begun\n")


def test_a_command_that_floods_is_ended(folders: Folders) -> None:
    found = fault(Session(folders, bounds=Bounds(shell_bytes=200_000)), "bash", command="yes")
    assert (found.code, found.reason) == ("io", "too_much_output")
    assert len(found.details["output"]) < 60_000


def test_a_command_gets_no_secret_of_the_gateway(folders: Folders) -> None:
    session = Session(folders, ports=Ports(environ={"PATH": os.environ["PATH"], "TOKEN": "hidden"}))
    assert "hidden" not in text(session, "bash", command="env")


def test_what_a_command_says_is_shown_while_it_runs(session: Session, tmp_path: Path) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)

    async def scene() -> dict[str, Any]:
        # A part comes with what is said a while after the last one.
        command = f"while [ ! -e {tmp_path}/seen ]; do echo tick; sleep 0.02; done; cat {go}; echo done"
        call = asyncio.create_task(session.call("tool", name="bash", stream=True, input={"command": command}))
        await until(lambda: session.chunks, "a part")
        (tmp_path / "seen").touch()
        await asyncio.to_thread(go.write_text, "")
        return await call

    found = asyncio.run(scene())
    assert session.chunks[0]["content"][0]["text"].startswith("tick\n")
    assert found["content"][0]["text"].endswith("done\n")


@pytest.mark.parametrize(
    "given",
    [{"pattern": "alpha"}, {"pattern": "ALPHA", "ignoreCase": True}, {"pattern": "alpha", "path": "src"},
     {"pattern": "alpha", "path": "src/a.py"}, {"pattern": "^alpha$"}, {"pattern": "a = ", "context": 1},
     {"pattern": "alpha", "glob": "*.py"}, {"pattern": "alpha", "glob": "src/*.py"},
     {"pattern": "alpha", "glob": "!*.py"}, {"pattern": "a.pha", "literal": True}, {"pattern": "nothing here"},
     {"pattern": r"alpha\s+omega"}, {"pattern": "omega$"}, {"pattern": "[^x]mega"}, {"pattern": "", "path": "notes.md"},
     {"pattern": "alpha", "path": "src/deep", "context": 2}, {"pattern": "beta|gamma", "path": "src/a.py"}],
)  # fmt: skip
def test_lines_are_found_as_pi_finds_them(
    pi: Pi, session: Session, place: Path, given: dict[str, Any]
) -> None:
    theirs = pi.call(place, "grep", **given)["ok"]
    ours = tool(session, "grep", **given)
    assert rows_of(ours) == rows_of(theirs)
    assert ours.get("details") == theirs.get("details")


@pytest.mark.parametrize(
    "given",
    [{"limit": 5}, {"limit": 5, "context": 2}, {"limit": 0}, {}, {"limit": 40}, {"limit": 39, "context": 1},
     {"limit": 2.7}],
)  # fmt: skip
def test_a_search_stops_where_pi_stops(pi: Pi, session: Session, place: Path, given: dict[str, Any]) -> None:
    (place / "many").write_text("".join(f"match {n}\nother\n" for n in range(40)) + "y" * 700 + "match\n")
    theirs = pi.call(place, "grep", pattern="match", path="many", **given)["ok"]
    assert tool(session, "grep", pattern="match", path="many", **given) == theirs


def test_a_search_looks_at_no_more_lines_than_are_shown(
    session: Session, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []

    class Counting(Stop):
        def look(self) -> None:
            looked.append(1)

    monkeypatch.setattr("gateway.runtime.host.workers.Stop", Counting)
    (place / "many").write_text("match\n" * 10_000)
    found = tool(session, "grep", pattern="match", path="many", limit=5)
    assert found["details"]["matchLimitReached"] == 5
    assert 5 < len(looked) < 100


def test_a_search_of_long_rows_is_cut_by_bytes(pi: Pi, session: Session, place: Path) -> None:
    (place / "many").write_text(("z" * 400 + "\n") * 300)
    given = {"pattern": "z", "path": "many", "limit": 1000}
    assert tool(session, "grep", **given) == pi.call(place, "grep", **given)["ok"]


@pytest.mark.parametrize("pattern", ["(", "a{999999999}", r"(?<=a)b"])
def test_a_pattern_that_cannot_be_read_is_an_invalid_request(session: Session, pattern: str) -> None:
    assert fault(session, "grep", pattern=pattern).reason == "bad_params"


def test_no_pattern_takes_more_time_than_its_text_is_long(session: Session, place: Path) -> None:
    (place / "evil").write_text("a" * 100_000)
    assert text(session, "grep", pattern="(a*)*(a|aa)+$b", path="evil") == "No matches found"


def test_files_are_found_by_globs(session: Session) -> None:
    def found(pattern: str, **more: Any) -> list[str]:
        return text(session, "find", pattern=pattern, **more).splitlines()

    assert found("*.py") == ["src/a.py", "src/deep/b.py"]
    assert found("src/*.py") == ["src/a.py"]
    assert found("*.py", path="src") == ["a.py", "deep/b.py"]
    assert found("deep") == ["src/deep/"]
    assert found("*.log") == ["keep.log"]
    assert found("NOTES.md") == ["No files found matching pattern"]
    assert found("NoTeS.MD".lower()) == ["notes.md"]
    assert found("*.py", limit=1) == [
        "src/a.py",
        "",
        "[1 results limit reached. Use limit=2 for more, or refine pattern]",
    ]
    assert tool(session, "find", pattern="*.py", limit=1)["details"] == {"resultLimitReached": 1}


def test_what_is_ignored_is_what_ripgrep_ignores(session: Session, place: Path) -> None:
    (place / "src" / ".gitignore").write_text("# a comment\n/a.py\n!*.log\ndeep/*\n!deep/c.py\n")
    (place / "src" / "x.log").write_text("1")
    (place / "src" / "deep" / "c.py").write_text("1")
    (place / "src" / "deep" / "a.py").write_text("1")
    (place / "bad").mkdir()
    (place / "bad" / ".gitignore").write_text("[z-a]\n*.tmp\n")
    (place / "bad" / "a.tmp").write_text("1")
    (place / "bad" / "b.txt").write_text("1")
    theirs = subprocess.run(
        [f"{BIN}/rg", "--files", "--hidden", "--no-config", "--glob", "!.git/"],
        cwd=place, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    ours = [path for path in text(session, "find", pattern="*").splitlines() if not path.endswith("/")]
    links = ["dangling", "leak", "link"]
    assert sorted(set(ours) - set(links)) == sorted(theirs)


def test_a_folder_is_listed_as_pi_lists_it(pi: Pi, session: Session, place: Path) -> None:
    (place / "leak").unlink()
    calls: list[dict[str, Any]] = [{}, {"limit": 2}, {"limit": 0}, {"path": "src"}]
    for call in calls:
        assert tool(session, "ls", **call) == pi.call(place, "ls", **call)["ok"]
    (place / "bare").mkdir()
    assert tool(session, "ls", path="bare") == pi.call(place, "ls", path="bare")["ok"]


def test_a_link_that_leads_out_is_listed_and_not_looked_through(session: Session, place: Path) -> None:
    (place / "out").symlink_to("..")
    assert {"leak", "out", "link/"} <= set(text(session, "ls").splitlines())


# The scope holds for what is come by.


def test_no_search_reads_what_lies_outside_or_through_a_link(session: Session) -> None:
    assert "secret" not in text(session, "grep", pattern="alpha")
    assert fault(session, "grep", pattern="alpha", path="leak").code == "denied"
    assert fault(session, "read", path="leak").code == "denied"


def test_no_search_reads_what_a_rule_denies(folders: Folders, place: Path) -> None:
    rules = with_rules(
        Rule(verdict="allow", extension="ext", paths=["**"]),
        Rule(verdict="deny", paths=["src/deep/**", "keep.log"]),
    )
    session = Session(folders, rules)
    found = text(session, "grep", pattern="alpha")
    assert "src/a.py" in found
    assert "deep" not in found
    assert "keep.log" not in found
    assert "b.py" not in text(session, "find", pattern="*.py")


def test_a_search_keeps_to_its_bounds_and_says_so(folders: Folders) -> None:
    few = Session(folders, bounds=Bounds(files=3))
    assert "stopped after 3 entries" in text(few, "find", pattern="*.py")
    little = Session(folders, bounds=Bounds(search_bytes=10))
    found = tool(little, "grep", pattern="alpha")
    assert "stopped after 10 bytes" in found["details"]["searchStopped"]


@pytest.mark.parametrize(
    ("name", "given"),
    [("read", {"path": "x", "offset": "1"}), ("write", {"path": "x"}), ("edit", {"path": "x"}),
     ("edit", {"path": "x", "edits": []}), ("edit", {"path": "x", "edits": "no"}), ("bash", {}),
     ("bash", {"command": "true", "timeout": 0}), ("grep", {}), ("find", {"pattern": 1}), ("ls", {"limit": "1"}),
     ("find", {"pattern": "[a"}), ("write", {"path": "x", "content": "\ud800"})],
)  # fmt: skip
def test_input_that_cannot_be_read_is_an_invalid_request(
    session: Session, name: str, given: dict[str, Any]
) -> None:
    found = fault(session, name, **given)
    assert (found.code, found.reason) == ("invalid_request", "bad_params")


def test_a_tool_that_is_not_built_in_is_an_invalid_request(session: Session) -> None:
    found = fault(session, "deploy")
    assert (found.code, found.reason) == ("invalid_request", "unknown_tool")
