"""Where the command `tieline` begins: Ctrl-C is quiet from here on, and only then is anything else loaded.

Owns nothing else: what is done is `main`'s.
"""

from transports.interrupts import end_quietly


def main() -> int:
    """Run this process's command line; return its exit code."""
    end_quietly()
    from gateway.cli.main import main as run

    try:
        return run()
    finally:
        end_quietly()
