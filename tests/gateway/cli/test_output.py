"""Tables: what fits, what is cut, and what is left out."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.cells import cell_len

from gateway.cli.output import CliError, cut, ensure_writable, grid, make_folder, terminal_width, with_tail

ROWS = [
    {"seq": "1", "lane": "", "bytes": "279", "what": "tools/call list_databases"},
    {"seq": "20", "lane": "", "bytes": "18", "what": "tools/list"},
]


def test_a_column_in_which_nothing_stands_is_left_out_and_numbers_stand_right() -> None:
    assert list(grid(ROWS, right=("seq", "bytes"), width=None)) == [
        "seq  bytes  what",
        "─────────────────────────────────────",
        "  1    279  tools/call list_databases",
        " 20     18  tools/list",
    ]


def test_the_long_column_alone_is_cut_and_no_line_is_longer_than_the_terminal() -> None:
    lines = list(grid(ROWS, right=("seq", "bytes"), width=30))
    assert lines[2:] == ["  1    279  tools/call list_d…", " 20     18  tools/list"]
    assert max(map(len, lines)) == 30


def test_what_can_be_spared_makes_room_for_what_was_said() -> None:
    lines = list(grid(ROWS, right=("seq", "bytes"), width=30, expendable=("bytes",)))
    assert lines[0] == "seq  what"
    assert lines[2] == "  1  tools/call list_databases"


def test_tails_stay_where_their_text_is_cut() -> None:
    lines = list(grid(ROWS, right=("seq", "bytes"), width=40, tails=["[synthetic]", ""]))
    assert lines[2:] == ["  1    279  tools/call list… [synthetic]", " 20     18  tools/list"]


def test_where_no_width_is_given_one_long_cell_moves_no_other() -> None:
    long = {"seq": "3", "lane": "", "bytes": "9", "what": "notice " + "long " * 60 + "end"}
    lines = list(grid([*ROWS, long], right=("seq", "bytes"), width=None))
    assert lines[2:4] == list(grid(ROWS, right=("seq", "bytes"), width=None))[2:]
    assert lines[4].endswith("long end")
    assert len(lines[1]) == 100


@pytest.mark.parametrize("width", [0, 1, 5, 6, 20])
def test_text_is_cut_by_the_cells_that_it_fills(width: int) -> None:
    assert cell_len(cut("漢字漢字", width)) <= max(width, 1)
    assert cell_len(with_tail("漢字漢字", "[late]", width)) <= max(width, 1)
    assert cut("漢字", 4) == "漢字"


def test_a_pipe_has_no_width(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    del capfd
    monkeypatch.setenv("COLUMNS", "40")
    assert terminal_width() is None


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    make_folder(tmp_path / "new" / "below")
    assert (tmp_path / "new" / "below").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(CliError, match=r"`.*/file/x` cannot be made: Not a directory") as caught:
        make_folder(tmp_path / "file" / "x")
    assert caught.value.code == 3


@pytest.mark.parametrize("name", ["out/session/report.json", "out/report.json"])
def test_a_file_may_be_put_where_the_command_makes_a_folder_itself(tmp_path: Path, name: str) -> None:
    ensure_writable(tmp_path / name, makes=tmp_path / "out" / "session")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["other/report.json", "out/other/report.json", "out/session/deeper/report.json"]
)
def test_a_file_in_a_folder_that_nobody_makes_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name

    with pytest.raises(CliError, match=f"there is no folder `{path.parent}`"):
        ensure_writable(path, makes=tmp_path / "out" / "session")


def test_a_folder_that_cannot_be_made_takes_no_file(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()

    with pytest.raises(CliError, match="cannot be written"):
        ensure_writable(tmp_path / "taken" / "out" / "report.json", makes=tmp_path / "taken" / "out")
