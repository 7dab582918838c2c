"""YAML as cassettes are written in it: the core schema of YAML 1.2, and nothing that makes objects.

Owns the loader. A version such as `2025-06-18` stays a text, `yes` stays a text; tags of Python, and documents that
unfold to more than they hold, are refused. Needs the extra `import`.
"""

from __future__ import annotations

import re
from typing import Any, cast

from recordings.errors import RecordingError
from recordings.extras import extra_hint
from recordings.importers.base import Source

HINT = f"YAML cannot be read here, it needs the extra `import`: {extra_hint('import')}"
DEEPEST = 100

_NULL = re.compile(r"~|null|Null|NULL|")
_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")


def load(source: Source) -> Any:
    """The document in a file: dicts, lists, texts, numbers, booleans, None and bytes.

    Raises `ForeignFormatError` for what is no such document, `RecordingError` where PyYAML is not installed.
    """
    try:
        import yaml
    except ImportError:
        raise RecordingError(HINT, code="invalid_request") from None
    loader = _loader(yaml)
    try:
        text = source.data.decode("utf-8")
        return loader(source, yaml, text)
    except UnicodeDecodeError as why:
        raise source.bad("it is not UTF-8", line=source.line_at(why.start)) from None
    except yaml.MarkedYAMLError as why:
        mark = why.problem_mark
        line = mark.line + 1 if mark is not None else None
        raise source.bad(str(why.problem or why), line=line) from None
    except yaml.YAMLError as why:
        raise source.bad(str(why).splitlines()[0]) from None
    except RecursionError:
        raise source.bad("it is nested too deep") from None


def _loader(yaml: Any) -> Any:
    base: Any = getattr(yaml, "CBaseLoader", None) or yaml.BaseLoader

    def read(source: Source, yaml: Any, text: str) -> Any:
        node = yaml.compose(text, Loader=base)
        return None if node is None else _Builder(source, yaml).value(node, 0)

    return read


class _Builder:
    """Makes values of nodes. An alias is refused: cassettes have none, and with them a small file gets large."""

    def __init__(self, source: Source, yaml: Any) -> None:
        self._source = source
        self._yaml = yaml
        self._seen: set[int] = set()

    def value(self, node: Any, depth: int) -> Any:
        line = node.start_mark.line + 1
        if depth > DEEPEST:
            raise self._source.bad("it is nested too deep", line=line)
        if id(node) in self._seen:
            raise self._source.bad(
                "a value is used again by a YAML alias", line=line, advice="write out what it stands for"
            )
        self._seen.add(id(node))
        tag = cast(str, node.tag or "")
        if "python/" in tag and not tag.endswith((":python/str", ":python/unicode")):
            raise self._source.bad(
                f"the value is of the Python type `{tag.rpartition('/')[2]}`",
                line=line,
                advice="such a cassette can run code; record it again with a text body",
            )
        if isinstance(node, self._yaml.MappingNode):
            return {
                str(self.value(key, depth + 1)): self.value(value, depth + 1)
                for key, value in cast("list[tuple[Any, Any]]", node.value)
            }
        if isinstance(node, self._yaml.SequenceNode):
            return [self.value(each, depth + 1) for each in cast("list[Any]", node.value)]
        return self._scalar(node, tag, line)

    def _scalar(self, node: Any, tag: str, line: int) -> Any:
        text = cast(str, node.value)
        if tag.endswith(":binary"):
            import binascii

            try:
                return binascii.a2b_base64(text.encode("ascii", "replace"))
            except binascii.Error:
                raise self._source.bad("a binary value is no base64", line=line) from None
        if node.style or tag.endswith(("/str", "/unicode")):
            return text
        return _plain(text)


def _plain(text: str) -> Any:
    if _NULL.fullmatch(text):
        return None
    if _BOOL.fullmatch(text):
        return text[0] in "tT"
    if _INT.fullmatch(text):
        try:
            return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
        except ValueError:
            return text
    return float(text) if _FLOAT.fullmatch(text) else text
