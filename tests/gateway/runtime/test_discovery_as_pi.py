"""Pi's own search beside ours, over the same folders: each extension for Pi has a manifest for us beside it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from gateway.config.discovery import discover, places
from gateway.config.extension_manifest import ExtensionManifest
from gateway.runtime.extension_files import Disk, capability_faults
from tests import tooling

PI_ENTRY = "export default () => {};\n"


def put(folder: Path, name: str = "") -> None:
    """Put an extension for Pi and one for us into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "index.js").write_text(PI_ENTRY)
    manifest = {"name": name or f"{folder.parent.name}-{folder.name}", "version": "1", "command": ["true"]}
    (folder / "extension.json").write_text(json.dumps(manifest))


def pack(folder: Path, *inner: str) -> None:
    """Make a package of what lies in folders further down, once in Pi's words and once in ours."""
    entries = [f"./{name}/{file}" for name in inner for file in ("index.js", "extension.json")]
    package = {"name": folder.name, "type": "module", "pi": {"extensions": entries}}
    (folder / "package.json").write_text(json.dumps(package))


def by_pi(project: Path, agent: Path) -> list[str]:
    program = [
        str(tooling.node()),
        str(tooling.HERE / "pi_discovery.mjs"),
        str(tooling.script("pi-extension-loader")),
    ]
    done = subprocess.run(
        [*program, str(project), str(agent)], capture_output=True, text=True, check=True, timeout=50
    )
    told: dict[str, Any] = json.loads(done.stdout)
    # It tries to load our manifests of a package too, which are none for it.
    assert all(one["path"].endswith("extension.json") for one in told["errors"]), told["errors"]
    return [str(Path(path).parent) for path in told["found"]]


def by_us(project: Path, agent: Path) -> list[str]:
    def trusted(path: str, manifest: ExtensionManifest, data: bytes) -> bool:
        del path, manifest, data
        return True

    found = discover(places([], str(project), str(agent)), Disk(), check=capability_faults, trusted=trusted)
    assert found.broken == ()
    return [str(Path(one.path).parent) for one in found.found]


def test_the_same_extensions_are_found_in_the_same_places_those_of_the_project_first(tmp_path: Path) -> None:
    project, agent = tmp_path / "project", tmp_path / "agent"
    here, there = project / ".pi" / "extensions", agent / "extensions"
    for folder in (here / "a", here / "b", there / "a", there / "c"):
        put(folder)
    # One level deep, and a package goes as deep as it says.
    put(here / "deep" / "inside")
    for inner in ("one", "two"):
        put(there / "pack" / "src" / inner)
    put(there / "pack")
    pack(there / "pack", "src/one", "src/two")
    (there / "linked").symlink_to(here / "deep" / "inside", target_is_directory=True)
    (there / "empty").mkdir()

    ours = by_us(project, agent)
    pis = by_pi(project, agent)

    assert sorted(ours) == sorted(pis)
    assert len(ours) == 7
    of_project = [path.startswith(str(here)) for path in ours]
    assert of_project == [path.startswith(str(here)) for path in pis] == sorted(of_project, reverse=True)
