"""What a configuration says of Pi extensions: whether they are looked for, and where.

Owns names, types, bounds and descriptions of the section `extensions`. What is found by it is `discovery`'s.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from gateway.config.values import PLACE


class ExtensionsConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Pi extensions: where they are looked for."""

    discover: Annotated[
        bool,
        Meta(
            description="Look for extensions in `.pi/` beside the configuration and in `~/.pi/agent/`, and serve them "
            "as peers. What lies in a project is served once `tieline extensions trust` has said so."
        ),
    ] = False
    paths: Annotated[
        list[str],
        Meta(
            description="Further manifests, and folders that hold one or several; they come first.",
            extra=PLACE,
        ),
    ] = []
    disable: Annotated[list[str], Meta(description="Names of extensions that are left out.")] = []
