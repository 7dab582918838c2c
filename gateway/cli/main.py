"""The command `tieline`: finds the family that a command belongs to, and turns what goes wrong into an exit
code.

One file a family, each with `register(app)`. Only the family that is asked for is imported, and `run` and
`record`, which an agent waits for, are started without the option parser where their arguments are plain.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from keyword import iskeyword
from typing import TYPE_CHECKING, Protocol, cast

from gateway.cli.output import BAD_INPUT, INTERRUPTED, WRONG_USE, CliError, tell_config_error, tell_error
from transports.interrupts import READER_GONE, drop_output, heed

if TYPE_CHECKING:
    import typer

    class _Family(Protocol):
        def register(self, app: object) -> None: ...

        def quick(self, arguments: Sequence[str]) -> Work | None: ...


FAMILIES = (
    "demo",
    "run",
    "record",
    "replay",
    "verify",
    "conformance",
    "faults",
    "check",
    "status",
    "tools",
    "extensions",
    "recordings",
    "frames",
    "show",
    "doctor",
    "export",
    "import",
    "diff",
    "rules",
    "policy",
    "audit",
    "fork",
    "minimise",
    "bench",
)
"""Names of commands, in the order of the help; each is also the name of its module, with `_` after a keyword."""
QUICK = ("run", "record")
"""Families with `quick(arguments)`: the work to do, or None where only the full parser knows."""
_FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO))
"""What a write to an output meets that takes no more."""

Work = Callable[[], int]


def main() -> int:
    """Run this process's command line; return 0 done, 1 no, 2 wrong use or 3 bad input."""
    arguments = sys.argv[1:]
    return guarded(lambda: _dispatch(arguments))


def _dispatch(arguments: Sequence[str]) -> int:
    completing = "_TIELINE_COMPLETE" in os.environ
    if arguments and arguments[0] in QUICK and not completing:
        # What is loaded now stays: `serve` has the collector look for garbage once it has begun.
        gc.disable()
        load_msgspec()
        work = _family(arguments[0]).quick(arguments[1:])
        if work is not None:
            return work()
        gc.enable()
    return _parsed(arguments, only=arguments[0] if arguments and not completing else None)


def load_msgspec() -> None:
    """Load msgspec without `typing_extensions`, which only has what our `typing` has too.

    msgspec tries it first and takes `typing` where there is none: two of sixty milliseconds. Whoever asks for it after
    this is given it as ever.
    """
    name = "typing_extensions"
    if name in sys.modules:
        return
    # None is how Python writes down that there is no such module.
    cast("dict[str, object]", sys.modules)[name] = None
    try:
        import_module("msgspec")
    finally:
        del sys.modules[name]


def _family(name: str) -> _Family:
    return cast("_Family", import_module(_module(name)))


def _module(name: str) -> str:
    return f"gateway.cli.{name}_" if iskeyword(name) else f"gateway.cli.{name}"


def application(*, only: str | None = None) -> typer.Typer:
    """Return the option parser, with one family or with all."""
    import typer

    import gateway

    def version(wanted: bool) -> None:
        if wanted:
            sys.stdout.write(f"tieline {gateway.__version__}\n")
            raise typer.Exit

    def root(
        version: bool = typer.Option(
            False, "--version", help="Print the version and end.", callback=version, is_eager=True
        ),
    ) -> None:
        """The exchange between an agent and its extensions: brokers every call, records every frame."""

    app = typer.Typer(
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog="Exit codes: 0 done, 1 the answer is no, 2 wrong use, 3 bad input.",
    )
    app.callback()(root)
    from importlib.util import find_spec

    for name in [only] if only in FAMILIES else FAMILIES:
        if find_spec(_module(name)) is not None:
            _family(name).register(app)
    return app


def _parsed(arguments: Sequence[str], *, only: str | None) -> int:
    import typer

    app = application(only=only)
    try:
        result: object = app(args=list(arguments), prog_name="tieline", standalone_mode=False)
    except typer.TyperException as error:
        return _wrong_use(error)
    except typer.Abort:
        return INTERRUPTED
    return result if isinstance(result, int) else 0


def _wrong_use(error: Exception) -> int:
    """Say what the option parser found wrong, in the form that all errors have."""
    say = getattr(error, "format_message", None)
    message = str(say() if callable(say) else error).strip().rstrip(".")
    context = getattr(error, "ctx", None)
    command = getattr(context, "command_path", "tieline")
    if type(error).__name__ == "NoArgsIsHelpError":
        # No command was named; the message is the help.
        sys.stderr.write(f"{message}.\n")
        return WRONG_USE
    tell_error(message, f"Run `{command} --help` for the options and an example")
    return int(getattr(error, "exit_code", WRONG_USE))


def guarded(work: Work) -> int:
    """Do the work; tell an error that is meant for a person as one, and return the exit code.

    A fault of ours is not hidden: it ends the process with its traceback.
    """
    try:
        code = _told(work)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except (BrokenPipeError, SystemExit) as error:
        # The reader of our output has left, as `head` does. The option parser and rich end the process where they
        # see that, with an exit code that means something else here.
        if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
            raise
        drop_output()
        return READER_GONE
    except OSError as error:
        if error.errno not in _FULL or error.filename is not None:
            raise
        tell_error(f"the output cannot be written: {error.strerror}")
        drop_output()
        return BAD_INPUT


def _told(work: Work) -> int:
    from gateway.config.mistakes import ConfigError

    try:
        heed()
        return work()
    except CliError as error:
        tell_error(str(error), error.hint)
        return error.code
    except ConfigError as error:
        tell_config_error(error)
        return BAD_INPUT
