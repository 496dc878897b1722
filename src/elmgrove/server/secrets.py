"""Secrets: tokens and keys, how they are made, sent and remembered."""

import hmac
import os
import re
import secrets
from hashlib import sha256
from pathlib import Path

from starlette.datastructures import Headers

from elmgrove.errors import BadInput


def new_secret(purpose: str) -> str:
    """Makes a secret of 256 bits that begins with its purpose."""
    return prefix(purpose) + secrets.token_urlsafe(32)


def is_secret(purpose: str, text: object) -> bool:
    """Says whether this could be a secret that ``new_secret`` made."""
    form = re.escape(prefix(purpose)) + "[A-Za-z0-9_-]{43}"
    return isinstance(text, str) and re.fullmatch(form, text) is not None


def prefix(purpose: str) -> str:
    """Gives what secrets of this purpose begin with."""
    return f"elm-{purpose}-"


def hashed(secret: str) -> str:
    """Hashes a secret: the store holds nothing else of it.

    Secrets of 256 random bits can't be guessed, so one round will do.
    """
    return sha256(secret.encode()).hexdigest()


def matches(secret: str, stored: str) -> bool:
    """Says whether a secret is the one behind a stored hash."""
    return hmac.compare_digest(hashed(secret), stored)


def load_admin_token(path: Path) -> str:
    """Reads the administrator's token from its file, which is made if it is not there."""
    try:
        # Nobody else may read it, not even for the moment before it has its rights.
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(new_secret("admin"))
    except FileExistsError:
        pass
    token = path.read_text(encoding="utf-8").strip()
    if not token:
        raise BadInput(f"{path} is empty: write a token into it, or remove it to get a new one")
    return token


def secret_of(headers: Headers) -> str:
    """Gives what a request sends as its secret, valid or not; '' where it sends none.

    A secret may be written in many ways, with more spaces for instance, and is one caller's.
    """
    scheme, _, secret = headers.get("authorization", "").strip().partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""
