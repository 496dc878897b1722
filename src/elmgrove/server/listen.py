"""The process: the application on uvicorn, with TLS where there are certificates."""

from pathlib import Path

import uvicorn

from elmgrove.errors import BadInput
from elmgrove.server.app import MAX_BODY, make_app


def listen(
    store_url: str,
    admin_token: str,
    *,
    host: str = "127.0.0.1",
    port: int = 8470,
    certificate: Path | None = None,
    private_key: Path | None = None,
    max_body: int = MAX_BODY,
    log_level: str = "info",
) -> None:
    """Serves until SIGINT or SIGTERM; what was begun is finished first."""
    require_both(certificate, private_key)
    uvicorn.run(
        make_app(store_url, admin_token, max_body=max_body),
        host=host,
        port=port,
        # The parser with limits on headers.
        http="h11",
        ssl_certfile=certificate,
        ssl_keyfile=private_key,
        log_level=log_level,
        access_log=log_level == "debug",
        timeout_graceful_shutdown=10,
        server_header=False,
    )


def require_both(certificate: Path | None, private_key: Path | None) -> None:
    """Raises ``BadInput`` for a certificate without its key, or a key without its certificate."""
    if (certificate is None) != (private_key is None):
        raise BadInput("TLS needs both: --certificate and --private-key")
