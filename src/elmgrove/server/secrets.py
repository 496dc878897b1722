"""Tokens and keys: made at random, kept as hashes, compared in constant time."""

import hmac
import os
import secrets
from hashlib import sha256
from pathlib import Path

from elmgrove.errors import BadInput


def make(kind: str) -> str:
    """A new secret of 256 bits; what it is for can be seen at its beginning."""
    return f"elm-{kind}-{secrets.token_urlsafe(32)}"


def hashed(secret: str) -> str:
    """What is stored of it. Secrets of 256 random bits can't be guessed, so one round will do."""
    return sha256(secret.encode()).hexdigest()


def equal(secret: str, stored: str) -> bool:
    """Whether a secret is the one behind a stored hash."""
    return hmac.compare_digest(hashed(secret), stored)


def admin_token(path: Path) -> str:
    """The administrator's token from its file, which is made if it is not there."""
    try:
        # Nobody else may read it, not even for the moment before it has its rights.
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(make("admin"))
    except FileExistsError:
        pass
    token = path.read_text(encoding="utf-8").strip()
    if not token:
        raise BadInput(f"{path} is empty: write a token into it, or remove it to get a new one")
    return token
