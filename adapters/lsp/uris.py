"""Paths and `file:` URIs. Servers write one file's URI in several ways, so files are known by their paths.

Owns the two directions. Pure.
"""

from __future__ import annotations

from urllib.parse import quote, unquote, urlsplit


def uri_of(path: str) -> str:
    """The URI of an absolute path."""
    return "file://" + quote(path, safe="/-._~")


def path_of(uri: str) -> str:
    """The path of a URI; one that names no file stays as it is."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return uri
    return unquote(parts.path) if parts.scheme == "file" else uri
