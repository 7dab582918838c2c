"""Values of another run in the place of the recorded ones."""

from __future__ import annotations

from gateway.replay.renames import MOST_ODD, Renames

A, B, C = (letter * 8 + "-1111-2222-3333-" + letter * 12 for letter in "abc")


def renamed(body: str, *pairs: tuple[str, str]) -> str:
    renames = Renames()
    renames.learn(pairs)
    return renames.applied(body.encode()).decode()


def test_two_values_that_have_changed_places_stay_two() -> None:
    assert renamed(f'"{A} {B}"', (A, B), (B, A)) == f'"{B} {A}"'
    assert renamed(f'"{A} {B}"', (A, B), (B, C)) == f'"{B} {C}"'


def test_a_value_is_found_as_a_whole_word_only_and_a_short_one_never() -> None:
    assert renamed(f'"x{A} {A}x ({A})"', (A, B)) == f'"x{A} {A}x ({B})"'
    assert renamed('"17"', ("17", "18")) == '"17"'


def test_paths_and_times_are_found_and_the_longer_one_first() -> None:
    home, file = "/home/ann/project", "/home/ann/project/a.py"
    pairs = (home, "/srv/q"), (file, "/tmp/b.py")
    assert renamed(f'["{home}","{file}","{home}/c"]', *pairs) == '["/srv/q","/tmp/b.py","/srv/q/c"]'
    assert renamed('"C:\\\\users\\\\ann\\\\long"', ("C:\\users\\ann\\long", "D:\\x")) == '"D:\\\\x"'


def test_the_latest_times_are_known_however_many_there_were() -> None:
    times = [f"2026-01-01T00:{n // 60:02}:{n % 60:02}Z" for n in range(MOST_ODD + 10)]
    renames = Renames()
    renames.learn((time, "now") for time in times)
    assert renames.applied(f'"{times[-1]}"'.encode()) == b'"now"'
    assert renames.applied(f'"{times[0]}"'.encode()) == f'"{times[0]}"'.encode()
