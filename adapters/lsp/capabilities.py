"""What this client tells language servers that it can do.

Owns that one value. Servers that are not told of progress, of diagnostics that are asked for or of operations on
files do without, and then say less.
"""

from __future__ import annotations

from typing import Any, Final

from adapters.lsp.text import ENCODINGS

_KINDS = {"valueSet": list(range(1, 27))}
_ACTION_KINDS = [
    "",
    "quickfix",
    "refactor",
    "refactor.extract",
    "refactor.inline",
    "refactor.rewrite",
    "source",
]

CAPABILITIES: Final[dict[str, Any]] = {
    "general": {"positionEncodings": list(ENCODINGS)},
    "window": {"workDoneProgress": True},
    "workspace": {
        "configuration": True,
        "didChangeConfiguration": {"dynamicRegistration": True},
        "workspaceFolders": True,
        "applyEdit": True,
        "workspaceEdit": {
            "documentChanges": True,
            "resourceOperations": ["create", "rename", "delete"],
            "failureHandling": "transactional",
        },
        "didChangeWatchedFiles": {"dynamicRegistration": True, "relativePatternSupport": True},
        "symbol": {"symbolKind": _KINDS},
        "executeCommand": {},
        "diagnostics": {"refreshSupport": True},
    },
    "textDocument": {
        "synchronization": {"dynamicRegistration": False},
        "definition": {"linkSupport": True},
        "references": {},
        "hover": {"contentFormat": ["markdown", "plaintext"]},
        "documentSymbol": {"hierarchicalDocumentSymbolSupport": True, "symbolKind": _KINDS},
        "publishDiagnostics": {"versionSupport": True, "dataSupport": True, "codeDescriptionSupport": True},
        "diagnostic": {"dynamicRegistration": True},
        "rename": {"prepareSupport": False},
        "codeAction": {
            "codeActionLiteralSupport": {"codeActionKind": {"valueSet": _ACTION_KINDS}},
            "isPreferredSupport": True,
            "dataSupport": True,
            "resolveSupport": {"properties": ["edit"]},
        },
        "formatting": {},
        "rangeFormatting": {},
        "callHierarchy": {},
    },
    "experimental": {"serverStatusNotification": True},
}
