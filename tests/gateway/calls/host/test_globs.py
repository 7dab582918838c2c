"""The globs of searches: held against ripgrep's, over a tree of names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import re2

from gateway.calls.host.globs import GlobError, expression

NAMES = (
    "a.py", "b.txt", ".env", "src/a.py", "src/deep/a.py", "src/deep/b.ts", "src/c.tsx", "src/[x].py", "lib/src/a.py",
    "x,y.py", "src/deep/er/a.py", "A.PY", "src/a+b.py",
)  # fmt: skip
GLOBS = (
    "*.py", "*", "a.py", "src/*.py", "/a.py", "./a.py", "./src/*.py", "src/**", "src/**/a.py", "**/a.py", "**/src/*.py",
    "**", "src/*", "*.{ts,tsx}", "src/{deep,er}/*.py", "[ab].*", "[!a].*", "?.py", "src/?.py", "\\[x\\].py", "[[]x].py",
    "src/**/*.ts", "a*b.py", "x,y.py", "*.p?", "src/deep/**/a.py", "[a-b].py", "nothing", "src",
)  # fmt: skip


RE2: Any = re2
RG = Path(sys.executable).parent / "rg"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("tree")
    for name in NAMES:
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text("x")
    return top


@pytest.mark.parametrize("glob", GLOBS)
def test_a_glob_means_what_it_means_to_ripgrep(tree: Path, glob: str) -> None:
    said = subprocess.run(
        [str(RG), "--files", "--hidden", "--no-config", "--no-ignore", "--glob", glob.removeprefix("./")],
        cwd=tree, capture_output=True, text=True, check=False,
    ).stdout  # fmt: skip
    pattern = RE2.compile("(?s)" + expression(glob))
    assert sorted(name for name in NAMES if pattern.fullmatch(name)) == sorted(said.split("\n")[:-1])


@pytest.mark.parametrize("glob", ["[a", "{a,b", "a[", "src/{a"])
def test_a_glob_that_is_not_closed_is_none(glob: str) -> None:
    with pytest.raises(GlobError, match="not closed"):
        expression(glob)


def test_a_question_mark_is_one_letter_however_many_bytes_it_has() -> None:
    assert RE2.fullmatch(expression("?.py"), "src/\u00e9.py")
