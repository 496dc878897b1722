"""TLS: the context by which a device knows whom it speaks to, and shows who it is."""

import ssl
from collections.abc import Callable

from elmgrove.errors import BadInput
from elmgrove.exchange.base import Tls


def context_of(
    tls: Tls, anybody: Callable[[], ssl.SSLContext] = ssl.create_default_context
) -> ssl.SSLContext:
    """Makes a context of files; without an authority of one's own it trusts as ``anybody`` does."""
    if tls.private_key and not tls.certificate:
        raise BadInput(f"{tls.private_key}: a private key needs its certificate as well")
    try:
        made = ssl.create_default_context(cafile=tls.ca) if tls.ca else anybody()
        if tls.certificate:
            # A key with a passphrase is refused, instead of asking for it.
            made.load_cert_chain(tls.certificate, tls.private_key or None, password="")
    except OSError as error:
        files = ", ".join(filter(None, (tls.ca, tls.certificate, tls.private_key)))
        why = error.strerror or error
        raise BadInput(f"{files}: can't be used for TLS (PEM, no passphrase): {why}") from error
    return made
