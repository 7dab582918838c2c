"""What secrets look like by themselves: provider prefixes, signed tokens, armoured keys, credentials in text.

Owns the patterns and the forms that a known secret takes on the wire. All are linear-time and match bytes.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable

import msgspec

from recordings.late import late
from recordings.linear import Match, compiled, escaped

SHORTEST_KNOWN = 6
"""Known secrets shorter than this are not looked for: they would be found everywhere."""

_START = rb"(?:^|[^A-Za-z0-9]|\\[nrtbf])"
_BASE64 = rb"[A-Za-z0-9_\-]"


class Shape(msgspec.Struct, frozen=True):
    """A kind of secret: its class, a pattern whose one group is the secret, whether that needs a digit."""

    label: str
    pattern: bytes
    digit: bool = False


SHAPES: tuple[Shape, ...] = (
    Shape(
        "pem",
        rb"(-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
        rb"(?:(?:[A-Za-z0-9+/=:, .\-\r\n]|\\+[nrt/])*?-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
        rb"|(?:[A-Za-z0-9+/=:, .\r\n]|\\+[nrt/])*))",
    ),
    Shape("jwt", _START + rb"(eyJ" + _BASE64 + rb"{8,}\.eyJ" + _BASE64 + rb"{8,}\.?" + _BASE64 + rb"*)"),
    Shape("auth", rb"(?i:\bbearer|\bbasic)\s+([A-Za-z0-9._~+/\-]{8,}=*)", digit=True),
    Shape("cookie", rb"(?i:\b(?:set-)?cookie:)[ \t]*([^\s\"\\][^\r\n\"\\]*)"),
    Shape("openai", _START + rb"(sk-[A-Za-z0-9_\-]{20,})", digit=True),
    Shape("github", _START + rb"(gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})"),
    Shape("gitlab", _START + rb"(gl(?:pat|dt|rt|ptt|cbt|agent)-" + _BASE64 + rb"{16,})"),
    Shape("aws", _START + rb"((?:AKIA|ASIA)[A-Z0-9]{16})"),
    Shape("google", _START + rb"(AIza" + _BASE64 + rb"{30,}|ya29\." + _BASE64 + rb"{20,})"),
    Shape("slack", _START + rb"(xox[abeoprs]-[A-Za-z0-9\-]{10,}|xapp-[A-Za-z0-9\-]{10,})"),
    Shape("stripe", _START + rb"((?:[sr]k|whsec)_(?:(?:live|test)_)?[A-Za-z0-9]{16,})", digit=True),
    Shape("npm", _START + rb"(npm_[A-Za-z0-9]{30,})"),
    Shape("pypi", _START + rb"(pypi-AgE" + _BASE64 + rb"{20,})"),
    Shape("huggingface", _START + rb"(hf_[A-Za-z0-9]{20,})"),
    Shape("sendgrid", _START + rb"(SG\." + _BASE64 + rb"{16,}\." + _BASE64 + rb"{16,})"),
    Shape("digitalocean", _START + rb"(do[opr]_v1_[a-f0-9]{32,})"),
    Shape("shopify", _START + rb"(shp(?:at|ca|pa|ss)_[a-fA-F0-9]{16,})"),
    Shape("linear", _START + rb"(lin_(?:api|oauth)_[A-Za-z0-9]{16,})"),
    Shape("age", rb"(AGE-SECRET-KEY-1[A-Z0-9]{20,})"),
    Shape("tailscale", _START + rb"(tskey-[A-Za-z0-9\-]{16,})"),
    Shape("url", rb"[A-Za-z][A-Za-z0-9+.\-]*://[^\s/\"'@:\\<>]*:([^\s/\"'@\\<>]+)@"),
)

_VALUE = rb"(\"(?:[^\"\\\n]|\\.)*|\\+\"(?:[^\"\\\n]|\\+[^\"\\\n])*|'[^'\n]*|[^\s\"',;&<>()\\}\]{\[]+)"


def in_text(stems: bytes) -> bytes:
    """A pattern of a name with one of `stems`, what joins it to its value, and the value with its opening quote."""
    name = rb"([A-Za-z0-9_.\-]*" + stems + rb"[A-Za-z0-9_.\-]*)"
    return name + rb"(\\*[\"']?[ \t]*[:=]>?[ \t]*)" + _VALUE


def flag(stems: bytes) -> bytes:
    """A pattern of an option of a command line with one of `stems`, the blanks, and its value."""
    return rb"(--?[a-z0-9\-]*" + stems + rb"[a-z0-9\-]*)([ \t]+)" + _VALUE


def value_of(match: Match) -> tuple[int, int, bytes, bool]:
    """Where the value of a name in a text lies without its quote, the value, and whether it had one."""
    start, end = match.span(3)
    value: bytes = match.group(3)
    bare = value.lstrip(b"\\")
    if bare[:1] in (b'"', b"'"):
        lead = len(value) - len(bare) + 1
        return start + lead, end, value[lead:], True
    return start, end, value, False


def prefilter(stems: bytes) -> tuple[bytes, ...]:
    """Patterns of which one is found wherever a name with one of `stems` may call something a secret."""
    return (
        stems + rb"(?:(?:[^\"\\]|\\.)*\"|[^\"\\]*\\+\")\s*:",
        stems + rb"[A-Za-z0-9_.\-]*(?:\\*[\"']?[ \t]*[:=]|\\*\"\s*[,}])",
        rb"--?[a-z0-9\-]*" + stems + rb"[a-z0-9\-]*[ \t]",
        # Letters, digits, `-` and `_` spelled as escapes: no writer does that, so somebody hides something.
        rb"\\u00(?i:4[1-9a-f]|5[0-9af]|6[1-9a-f]|7[0-9a]|3[0-9]|2[df])",
    )


def pattern_fault(pattern: str) -> str | None:
    """What is wrong with a pattern that a project adds, as the end of a sentence; None for nothing."""
    if not pattern.isascii():
        return "may hold ASCII only; `[^ -~]` stands for a byte of any other character"
    try:
        found = compiled(pattern.encode())
    except Exception as error:  # noqa: BLE001 - `re2.error` is all it raises, but it has no types
        why = error.args[0] if error.args else ""
        return f"is not an RE2 pattern: {why.decode(errors='replace') if isinstance(why, bytes) else why}"
    if found.search(b"") is not None:
        return "matches no text at all, and so everywhere"
    if anchor := _anchor(pattern):
        return (
            f"holds `{anchor}`, but a secret is looked for inside of texts; use `\\b` for the edge of a word"
        )
    return None


def _anchor(pattern: str) -> str | None:
    """The first anchor of a valid pattern."""
    bare = _LITERAL.sub("", pattern)
    for match in _ATOM.finditer(bare):
        if match.group() in ("^", "$", r"\A", r"\z"):
            return match.group()
    return None


_LITERAL = late(r"\\Q.*?(?:\\E|$)", re.DOTALL)
_ATOM = late(r"\\.|\[\^?\]?(?:\[:\^?[a-z]+:\]|\\.|[^\]\\])*\]|.", re.DOTALL)


HARMLESS = (
    b"progressToken",
    b"cancel_token",
    b"maxTokens",
    b"max_tokens",
    b"inputTokens",
    b"outputTokens",
    b"input_tokens",
    b"output_tokens",
    b"total_tokens",
    b"nextPageToken",
    b"pageToken",
)
"""Names so common in agents' traffic that they are set aside before a match counts."""


def forms_of(secret: str) -> set[bytes]:
    """How a known secret may stand in bytes, JSON aside: plain, escaped for a URL, in base64 at any alignment."""
    plain = secret.encode("utf-8", "surrogatepass")
    forms = {plain}
    if _encodable(secret):
        # For who has secrets that are known.
        from urllib.parse import quote, quote_plus

        forms |= {quote(secret, safe="").encode(), quote(secret).encode(), quote_plus(secret).encode()}
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        forms |= {core for core in (_core(encode, plain, lead) for lead in range(3)) if len(core) >= 8}
    return forms


def escaped_form(secret: str) -> bytes | None:
    """A pattern for a known secret in JSON strings, also in those inside of others; None where it needs no escape."""
    if secret.isascii() and secret.isprintable() and not set(secret) & set('"\\/'):
        return None
    return b"".join(_escapes(char) for char in secret)


def _escapes(char: str) -> bytes:
    code = ord(char)
    if char in '"/':
        return rb"\\*" + char.encode()
    if char == "\\":
        return rb"\\+"
    if char.isascii() and char.isprintable():
        return escaped(char.encode())
    units = [code] if code < 0x10000 else [0xD800 + ((code - 0x10000) >> 10), 0xDC00 + (code & 0x3FF)]
    spelled = b"".join(rb"\\+u(?i:%04x)" % unit for unit in units)
    short = {"\n": rb"|\\+n", "\r": rb"|\\+r", "\t": rb"|\\+t", "\b": rb"|\\+b", "\f": rb"|\\+f"}.get(
        char, b""
    )
    return b"(?:" + escaped(char.encode("utf-8", "surrogatepass")) + b"|" + spelled + short + b")"


def _core(encode: Callable[[bytes], bytes], plain: bytes, lead: int) -> bytes:
    text = encode(b"\0" * lead + plain)
    skip = (0, 2, 3)[lead]
    whole = (lead + len(plain)) * 8 // 6
    return text[skip:whole]


def _encodable(secret: str) -> bool:
    try:
        secret.encode()
    except UnicodeEncodeError:
        return False
    return True
