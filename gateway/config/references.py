"""`${VAR}`, and tables that say where a secret lies, into their values; and which of those values are secret.

Reads the environment, files and the keyring, only when a field of the model asks for it. What it has found
out to be a secret is kept for the redactor and shown to nobody.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import cast

from gateway.config.mistakes import KeyPath, Report, did_you_mean
from gateway.config.reading import Field, found
from recordings.late import late
from recordings.spelling import expanded, joined

_VARIABLE = late(r"\$(\$\{)|\$\{([^}:]+)(?::-([^}]*)|:([^}]*))?\}")
_WORDS = late(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SECRET_WORDS = frozenset(
    (
        "key",
        "token",
        "secret",
        "secrets",
        "password",
        "passwd",
        "passphrase",
        "pass",
        "pwd",
        "authorization",
        "credential",
        "credentials",
        "cookie",
        "bearer",
        "apikey",
        "pat",
        "dsn",
    )
)
_NO_SECRETS = frozenset(("PWD", "OLDPWD"))
"""The working directory of every shell, whatever `pwd` means elsewhere."""
_PLACES = frozenset(("file", "path", "dir", "directory"))
"""Last words of names that say where a secret lies: `TOKEN_FILE`, which itself is none."""
_USERINFO = late(r"://[^/@\s:]*:([^/@\s]+)@")
_SCHEMES = ("bearer ", "basic ", "token ")
MIN_GUESSED = 8
"""Shortest value, in characters, that is secret by its name alone: redacting `1` everywhere helps nobody."""
MIN_REDACTED = 4
"""Shortest value that is redacted at all."""


def looks_secret(name: str) -> bool:
    """Whether the name of a variable or header says that it holds a secret: `API_KEY`, `apiKey`."""
    words = [word.lower() for word in _WORDS.findall(name)]
    if name in _NO_SECRETS or (words and words[-1] in _PLACES):
        return False
    return any(word in _SECRET_WORDS for word in words)


def secrets_in(name: str, value: str) -> set[str]:
    """Return what of a literal value is secret, judged by its name and by passwords in URLs."""
    secrets = set(_USERINFO.findall(value)) if "://" in value else set[str]()
    if looks_secret(name) and len(value) >= MIN_GUESSED:
        secrets |= {value, _without_scheme(value)}
    return secrets


def _without_scheme(value: str) -> str:
    scheme = next((s for s in _SCHEMES if value.lower().startswith(s)), "")
    return value[len(scheme) :]


class Resolver:
    """Resolves the values of one file; its `prepare` is what `reading.read` calls for each value."""

    def __init__(
        self,
        *,
        environ: Mapping[str, str],
        directory: str,
        report: Report,
        unused: frozenset[str] = frozenset(),
    ) -> None:
        """`unused` are names of disabled peers: their references need not lead anywhere."""
        self._environ = environ
        self._directory = directory
        self._report = report
        self._unused = unused
        self._secrets: set[str] = set()
        self.every_variable_is_secret = False
        """Whether what a variable holds is secret whatever it is called."""
        self.predefined: dict[str, str] = {}
        """What `${name}` means beyond variables: `workspaceFolder` and the like of other clients."""

    @property
    def secrets(self) -> frozenset[str]:
        """Every secret value that was met."""
        return frozenset(secret for secret in self._secrets if len(secret) >= MIN_REDACTED)

    def prepare(self, field: Field, value: object, path: KeyPath) -> object:
        """Return `value` with its references resolved, if the model says that the field may have any."""
        if not field.marked("expand"):
            return value
        name = str(path[-1])
        if isinstance(value, dict) and field.marked("refs"):
            table = cast(dict[str, object], value)
            if field.base is str:
                return self._reference(table, path)
            return {key: self._entry(item, (*path, key)) for key, item in table.items()}
        if isinstance(value, list):
            items = cast(list[object], value)
            return [
                self._place(field, self._text(item, name, (*path, at))) if isinstance(item, str) else item
                for at, item in enumerate(items)
            ]
        if not isinstance(value, str):
            return cast(object, value)
        return self._place(field, self._text(value, name, path))

    def _place(self, field: Field, text: str) -> str:
        """A path from the directory of the file on, where the field is one."""
        return joined(self._directory, expanded(text)) if field.marked("path") and text else text

    def _entry(self, value: object, path: KeyPath) -> object:
        if isinstance(value, dict):
            return self._reference(cast(dict[str, object], value), path)
        return self._text(value, str(path[-1]), path) if isinstance(value, str) else value

    def _skips(self, path: KeyPath) -> bool:
        return len(path) > 1 and path[0] == "peers" and path[1] in self._unused

    def _text(self, text: str, name: str, path: KeyPath) -> str:
        if self._skips(path):
            return text
        full = text
        if "$" in text:
            full = _VARIABLE.sub(lambda match: self._variable(match, name, path), text)
        self._secrets |= secrets_in(name, full)
        return full

    def _variable(self, match: re.Match[str], name: str, path: KeyPath) -> str:
        escaped, variable, default, suffix = match.groups()
        if escaped:
            return "${"
        if suffix is not None:
            if variable != "env":
                advice = f"`{match[0]}`, which a gateway cannot ask for; use `${{VARIABLE}}`"
                self._report.mistake(path, f"refers to {advice}")
                return ""
            variable = suffix
        if variable in self.predefined:
            return self.predefined[variable]
        value = self._environ.get(variable) or default
        if value is None:
            self._unset(variable, path)
            return ""
        is_secret = self.every_variable_is_secret or looks_secret(variable) or looks_secret(name)
        if variable in self._environ and is_secret:
            self._secrets.add(value)
        return value

    def _unset(self, variable: str, path: KeyPath) -> None:
        near = did_you_mean(variable, self._environ)
        self._report.mistake(path, f"refers to the environment variable `{variable}`, which is not set{near}")

    def _reference(self, table: dict[str, object], path: KeyPath) -> str:
        sources: dict[str, Callable[[str, KeyPath], str | None]] = {
            "env": self._from_env, "file": self._from_file, "keyring": self._from_keyring,
        }  # fmt: skip
        prefix = table.get("prefix", "")
        names = table.keys() - {"prefix"}
        if (
            len(names) != 1
            or not names <= sources.keys()
            or not all(isinstance(v, str) for v in table.values())
        ):
            self._report.mistake(path, f"must be text, or one of {_FORMS}, found {found(table)}")
            return ""
        if self._skips(path):
            return ""
        (source,) = names
        value = sources[source](str(table[source]), path)
        if value is None:
            return ""
        if len(value) < MIN_REDACTED:
            self._report.note(path, "is too short to be found and redacted in recordings")
        self._secrets |= {value, f"{prefix}{value}"}
        return f"{prefix}{value}"

    def _from_env(self, name: str, path: KeyPath) -> str | None:
        value = self._environ.get(name)
        if value is None:
            self._unset(name, path)
        return value

    def _from_file(self, name: str, path: KeyPath) -> str | None:
        try:
            with open(joined(self._directory, expanded(name)), encoding="utf-8") as file:
                return file.read().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            self._report.mistake(path, f"refers to the file `{name}`, which cannot be read: {why}")
            return None

    def _from_keyring(self, name: str, path: KeyPath) -> str | None:
        service, _, user = name.rpartition("/")
        if not service or not user:
            self._report.mistake(path, f"must name a keyring entry as `service/name`, found `{name}`")
            return None
        try:
            import keyring  # an optional dependency, and slow to import
        except ImportError:
            from recordings.extras import extra_hint

            self._report.mistake(path, f"needs the extra `keyring`: {extra_hint('keyring')}")
            return None
        try:
            value = keyring.get_password(service, user)
        except Exception as error:  # noqa: BLE001 - back ends raise whatever they like
            self._report.mistake(path, f"cannot be read from the keyring: {type(error).__name__}")
            return None
        if value is None:
            self._report.mistake(path, f"refers to the keyring entry `{name}`, which does not exist")
        return value


_FORMS = '`{ env = "NAME" }`, `{ file = "path" }`, `{ keyring = "service/name" }`'
