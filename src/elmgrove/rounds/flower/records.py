"""Messages as Flower's records: bytes in, the same bytes out, never pickle."""

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

BLOB = "blob"
NOTES = "notes"


def array_of(blob: bytes) -> ArrayRecord:
    """Makes a record of bytes; Flower cuts large ones into pieces."""
    return ArrayRecord({BLOB: Array(np.frombuffer(blob, np.uint8))})


def blob_of(record: ArrayRecord) -> bytes:
    """Gives the bytes of a record that ``array_of`` made."""
    return record[BLOB].numpy().tobytes()


def content(notes: dict[str, int | float | str], **blobs: bytes | ArrayRecord) -> RecordDict:
    """Makes the content of a message: blobs by name, and notes."""
    made = RecordDict({NOTES: ConfigRecord(dict(notes))})
    for name, blob in blobs.items():
        made[name] = array_of(blob) if isinstance(blob, bytes) else blob
    return made


def blob(held: RecordDict, name: str) -> bytes:
    """Gives a blob of a message by its name; no bytes if there is none."""
    return blob_of(held.array_records[name]) if name in held.array_records else b""


def notes_of(held: RecordDict) -> ConfigRecord:
    """Gives the notes of a message."""
    return held.config_records[NOTES]
