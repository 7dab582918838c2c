"""Which extensions are found where, and which of two is served."""

from __future__ import annotations

import json
from typing import Any, Literal

from hypothesis import given
from hypothesis import strategies as st

from gateway.config.discovery import Discovery, Place, discover, places
from gateway.config.extension_manifest import ExtensionManifest
from gateway.config.mistakes import KeyPath

WHERE = places([], "/work", "/home/.pi/agent")
PROJECT = "/work/.pi/extensions"
USER = "/home/.pi/agent/extensions"


class Files:
    """Files that are only written down: their bytes by path."""

    def __init__(self, files: dict[str, Any]) -> None:
        self.files = {
            path: data if isinstance(data, bytes) else json.dumps(data).encode()
            for path, data in files.items()
        }

    def kind(self, path: str) -> Literal["file", "folder", ""]:
        if path in self.files:
            return "file"
        return "folder" if any(each.startswith(f"{path}/") for each in self.files) else ""

    def names(self, path: str) -> list[str]:
        return list(
            {each[len(path) + 1 :].split("/")[0] for each in self.files if each.startswith(f"{path}/")}
        )

    def read(self, path: str) -> bytes:
        return self.files[path]


def manifest(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "version": "1", "command": ["./run"], **more}


def found(
    files: dict[str, Any], where: list[Place] = WHERE, *, trust: bool = True, **more: list[str]
) -> Discovery:
    def check(manifest: ExtensionManifest) -> list[tuple[KeyPath, str]]:
        del manifest
        return []

    def trusted(path: str, manifest: ExtensionManifest, data: bytes) -> bool:
        del path, manifest, data
        return trust

    return discover(where, Files(files), check=check, trusted=trusted, **more)


def states(discovery: Discovery) -> list[tuple[str, str]]:
    return [(one.path, one.status) for one in discovery.found]


def test_named_paths_come_first_then_the_project_then_the_user_and_settings_before_folders() -> None:
    files = {
        "/named/extension.json": manifest("named"),
        "/work/.pi/settings.json": {"extensions": ["mine/a", "../b.json"]},
        "/work/.pi/mine/a/extension.json": manifest("a"),
        "/work/b.json": manifest("b"),
        f"{PROJECT}/c/extension.json": manifest("c"),
        "/home/.pi/agent/settings.json": {"extensions": ["/elsewhere"], "theme": "dark"},
        "/elsewhere/d/extension.json": manifest("d"),
        f"{USER}/e.extension.json": manifest("e"),
    }

    discovery = found(files, places(["/named"], "/work", "/home/.pi/agent"))

    assert [(one.name, one.scope) for one in discovery.found] == [
        ("named", "config"),
        ("a", "project"),
        ("b", "project"),
        ("c", "project"),
        ("d", "user"),
        ("e", "user"),
    ]
    assert (discovery.broken, discovery.notes) == ((), ())


def test_the_first_of_a_name_is_served_and_the_other_is_told_of() -> None:
    files = {
        f"{PROJECT}/x/extension.json": manifest("same"),
        f"{USER}/y/extension.json": manifest("same"),
        f"{USER}/z/extension.json": manifest("db"),
    }

    discovery = found(files, peers=["db"])

    assert states(discovery) == [
        (f"{PROJECT}/x/extension.json", "served"),
        (f"{USER}/y/extension.json", "shadowed"),
        (f"{USER}/z/extension.json", "shadowed"),
    ]
    assert discovery.sentences() == [
        f"{USER}/y/extension.json: `same` is not served: `{PROJECT}/x/extension.json` has the name already",
        f"{USER}/z/extension.json: `db` is not served: `peers.db` of the configuration has the name already",
    ]


def test_what_nobody_trusts_takes_the_place_of_nothing() -> None:
    files = {
        f"{PROJECT}/guard/extension.json": manifest("guard"),
        f"{USER}/guard/extension.json": manifest("guard"),
    }

    assert states(found(files, trust=False)) == [
        (f"{PROJECT}/guard/extension.json", "untrusted"),
        (f"{USER}/guard/extension.json", "served"),
    ]
    assert [status for _, status in states(found(files, trust=True))] == ["served", "shadowed"]


def test_a_folder_is_looked_at_one_level_deep() -> None:
    files = {
        f"{USER}/deep/er/extension.json": manifest("deeper"),
        f"{USER}/node_modules/m/extension.json": manifest("module"),
        f"{USER}/.git/extension.json": manifest("hidden"),
        f"{USER}/readme.md": b"",
        f"{USER}/here/extension.json": manifest("here"),
    }

    discovery = found(files)

    assert [one.name for one in discovery.found] == ["here"]
    assert discovery.notes == (
        f"{USER}/deep: holds no `extension.json`, and folders in it are not looked at",
    )


def test_a_package_names_its_manifests_itself_at_any_depth() -> None:
    files = {
        f"{USER}/pack/package.json": {
            "name": "pack",
            "pi": {"extensions": ["./one/extension.json", "two", "gone.json"]},
        },
        f"{USER}/pack/extension.json": manifest("own"),
        f"{USER}/pack/one/extension.json": manifest("one"),
        f"{USER}/pack/two/extension.json": manifest("two"),
    }

    discovery = found(files)

    assert [one.name for one in discovery.found] == ["one", "two"]
    [mistake] = discovery.broken
    assert str(mistake) == f"{USER}/pack/package.json: `pi.extensions` names `gone.json`, where no file is"


def test_what_pi_would_load_into_itself_is_told_and_is_no_extension_here() -> None:
    files = {
        f"{USER}/a.ts": b"",
        f"{USER}/b/index.ts": b"",
        f"{USER}/c/package.json": {"pi": {"extensions": ["./i.ts"]}},
    }
    files[f"{USER}/c/i.ts"] = b""

    discovery = found(files)

    assert discovery.found == ()
    assert [note.split(":")[0] for note in discovery.notes] == [
        f"{USER}/a.ts",
        f"{USER}/b/index.ts",
        f"{USER}/c/i.ts",
    ]

    files[f"{USER}/c/extension.json"] = manifest("both")
    assert [one.name for one in found(files).found] == ["both"]


def test_a_broken_manifest_is_told_with_its_line_and_costs_nobody_else() -> None:
    files = {
        f"{USER}/a/extension.json": b'{"name": "a",\n "version": 3,\n "comand": "x"}',
        f"{USER}/b/extension.json": b"{",
        f"{USER}/c/package.json": b"[",
        f"{USER}/c/extension.json": manifest("c"),
        f"{USER}/d/extension.json": manifest("d"),
        "/home/.pi/agent/settings.json": {"extensions": "everything"},
    }

    discovery = found(files)

    assert [one.name for one in discovery.found] == ["c", "d"]
    assert list(map(str, discovery.broken)) == [
        "/home/.pi/agent/settings.json: `extensions` must be a list of paths",
        f"{USER}/a/extension.json: `command` is missing",
        f"{USER}/a/extension.json:2: `version` must be text of 1 or more characters of 64 or fewer characters, "
        "found a number",
        f"{USER}/a/extension.json:3: `comand` is not a known key; did you mean `command`?",
        f"{USER}/b/extension.json:1: is not valid JSON: Expecting property name enclosed in double quotes (column 2)",
        f"{USER}/c/package.json: is not valid JSON",
    ]


def test_what_is_disabled_is_found_and_not_served_and_a_wrong_name_is_told() -> None:
    discovery = found({f"{USER}/a/extension.json": manifest("a")}, disable=["a", "b"])

    assert states(discovery) == [(f"{USER}/a/extension.json", "disabled")]
    assert discovery.sentences() == []
    assert discovery.notes == ("`extensions.disable` names `b`, which was not found",)


def test_a_peer_runs_in_the_folder_of_its_manifest() -> None:
    [one] = found({f"{USER}/a/extension.json": manifest("a", cwd="data", env={"MODE": "x"})}).found

    peer = found({f"{USER}/a/extension.json": manifest("a", cwd="data", env={"MODE": "x"})}).peers()["a"]

    assert one.manifest.command == ["./run"]
    assert (peer.command, peer.cwd, peer.dialect, peer.env) == (
        [f"{USER}/a/run"],
        f"{USER}/a/data",
        "pi",
        {"MODE": "x"},
    )


@given(
    st.lists(
        st.tuples(
            st.sampled_from([PROJECT, USER, "/named"]), st.sampled_from("abc"), st.sampled_from("pqrs")
        ),
        max_size=8,
    ),
    st.booleans(),
)
def test_of_one_name_exactly_the_first_that_may_be_is_served(
    placed: list[tuple[str, str, str]], trust: bool
) -> None:
    files = {f"{folder}/{inner}/extension.json": manifest(name) for folder, name, inner in placed}
    discovery = found(files, places(["/named"], "/work", "/home/.pi/agent"), trust=trust)

    assert {one.path for one in discovery.found} == set(files)
    for name in "abc":
        mine = [one for one in discovery.found if one.name == name]
        eligible = [one for one in mine if trust or one.scope != "project"]
        assert [one.path for one in mine if one.status == "served"] == [one.path for one in eligible[:1]]
        assert all(one.status == "shadowed" for one in eligible[1:])
