"""Secrets: tokens and keys, how they are made, sent and remembered."""

import hmac
import os
import re
import secrets
from hashlib import sha256
from pathlib import Path

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import Scope

from elmgrove.errors import BadInput

#: What the secrets of visits begin with: of administrators by name, and of the first one, whose
#: visits end when the server is started with another token.
VISIT, ROOT_VISIT = "visit", "root-visit"


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


def visit_cookie(scope: Scope) -> str:
    """Gives the name of the cookie that holds a visit's secret.

    Through TLS it is one that nothing but this host, through TLS, can have set.
    """
    return "__Host-elmgrove" if scope.get("scheme") == "https" else "elmgrove"


def visit_of(scope: Scope) -> str:
    """Gives the secret of the visit that a request belongs to, valid or not; '' without one."""
    stated = Headers(scope=scope).get("cookie", "")
    secret = cookie_parser(stated).get(visit_cookie(scope), "")
    return secret if is_secret(VISIT, secret) or is_secret(ROOT_VISIT, secret) else ""
