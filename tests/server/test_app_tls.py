"""A server with a certificate of its own: for devices that were given it, and for no other."""

import ssl
from pathlib import Path

import httpx
import pytest
import trustme

from elmgrove.errors import BadInput
from elmgrove.exchange import Unreachable, connect
from elmgrove.server import listen
from support.serving import ADMIN, answers, charter, free_port, process, wait_until


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    """The signer of the server's certificate; the server's own files lie beside it."""
    signer = trustme.CA()
    certificate = signer.issue_cert("127.0.0.1", "localhost")
    signer.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    certificate.private_key_pem.write_to_path(str(tmp_path / "server.key"))
    for pem in certificate.cert_chain_pems:
        pem.write_to_path(str(tmp_path / "server.pem"), append=True)
    return tmp_path / "ca.pem"


def test_only_devices_that_know_the_authority_speak_with_the_server(
    authority: Path, tmp_path: Path
) -> None:
    port, definition = free_port(), charter()
    files = {
        "certificate": str(tmp_path / "server.pem"),
        "private_key": str(tmp_path / "server.key"),
    }
    with process(f"sqlite:///{tmp_path}/store.db", port=port, **files):
        wait_until(lambda: answers(port))
        base = f"https://127.0.0.1:{port}"
        made = httpx.post(
            f"{base}/v1/federations",
            json=definition.fields,
            headers={"Authorization": f"Bearer {ADMIN}"},
            verify=trusting(authority),
            timeout=60,
        )
        url, token = f"{base}/{definition.name}", made.json()["token"]
        with connect(url, "fan-1", token=token, ca=str(authority)) as session:
            assert session.exchange.charter == definition
        with pytest.raises(Unreachable, match="certificate"):
            connect(url, "fan-2", token=token)
        with pytest.raises(Unreachable):
            connect(url.replace("https", "http"), "fan-3", token=token)


def trusting(authority: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(authority))


def test_a_certificate_without_its_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="--private-key"):
        listen(f"{tmp_path}/store.db", ADMIN, certificate=tmp_path / "server.pem")
