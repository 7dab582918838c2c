"""Where the programs of the adapters begin: Ctrl-C is quiet from here on, and only then is anything else loaded.

Owns the choice of the program and nothing else: each has its command line in its own `__main__`.
"""

from transports.interrupts import end_quietly


def database() -> None:
    """`tieline-database`."""
    end_quietly()
    from adapters.database.__main__ import main

    main()


def editor() -> None:
    """`tieline-editor`."""
    end_quietly()
    from adapters.editor.__main__ import main

    main()


def files() -> None:
    """`tieline-files`."""
    end_quietly()
    from adapters.files.__main__ import main

    main()


def lsp() -> None:
    """`tieline-lsp`."""
    end_quietly()
    from adapters.lsp.__main__ import main

    main()
