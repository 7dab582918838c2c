"""Bodies that lie beside the lines: reading one by the frame that names it.

Owns the check that the bytes are those that were written. Writing them is `store`'s business, compressing `sealing`'s.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
import zstandard

from recordings import files
from recordings.errors import MissingBlobError
from recordings.frame import Frame


def read_body(path: Path, frame: Frame) -> bytes:
    """The bytes of the body of a frame in the recording at `path`; empty where it has none.

    Raises `MissingBlobError`, which concerns this frame alone.
    """
    blob = frame.blob
    if blob is None:
        return bytes(frame.body)
    base = path / files.BLOBS / blob.hash[:2]
    if not blob.hash.isalnum():
        raise MissingBlobError("named by no hash", seq=frame.seq, digest=blob.hash)
    try:
        data = (base / blob.hash).read_bytes()
    except FileNotFoundError:
        try:
            data = _unpacked((base / f"{blob.hash}.zst").read_bytes(), blob.len)
        except FileNotFoundError:
            raise MissingBlobError("missing", seq=frame.seq, digest=blob.hash) from None
        except OSError as error:
            raise MissingBlobError(_unread(error), seq=frame.seq, digest=blob.hash) from None
        except zstandard.ZstdError:
            raise MissingBlobError("damaged", seq=frame.seq, digest=blob.hash) from None
    except OSError as error:
        raise MissingBlobError(_unread(error), seq=frame.seq, digest=blob.hash) from None
    if len(data) != blob.len or hashlib.sha256(data).hexdigest() != blob.hash:
        raise MissingBlobError("damaged", seq=frame.seq, digest=blob.hash)
    return data


def with_body(path: Path, frame: Frame) -> Frame:
    """The frame with its body in it, wherever that lies; without one where its blob is missing."""
    if frame.blob is None:
        return frame
    try:
        return msgspec.structs.replace(frame, body=msgspec.Raw(read_body(path, frame)), blob=None)
    except MissingBlobError:
        return frame


def _unread(error: OSError) -> str:
    return f"not readable: {error.strerror}"


def _unpacked(data: bytes, size: int) -> bytes:
    # What it says of itself is looked at first: a few bytes may claim to unpack to any length.
    if zstandard.get_frame_parameters(data).content_size != size:
        return b""
    return zstandard.ZstdDecompressor().decompress(data)
