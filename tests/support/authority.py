"""A signer of certificates for tests, by trustme."""

from dataclasses import dataclass
from pathlib import Path

import trustme


@dataclass
class Authority:
    """A signer of certificates, and the folder in which they lie."""

    folder: Path
    signer: trustme.CA

    def signed(self, name: str) -> dict[str, str]:
        """The files of a new certificate, for a machine or in the name of a client."""
        made = self.signer.issue_cert(name, common_name=name)
        files = {"certificate": f"{name}.pem", "private_key": f"{name}.key"}
        paths = {what: str(self.folder / file) for what, file in files.items()}
        made.private_key_pem.write_to_path(paths["private_key"])
        for pem in made.cert_chain_pems:
            pem.write_to_path(paths["certificate"], append=True)
        return paths

    def signed_with_key(self, name: str) -> str:
        """The file of a new certificate and its key, as a device's setting has it."""
        files = self.signed(name)
        with Path(files["certificate"]).open("a") as both:
            both.write(Path(files["private_key"]).read_text())
        return files["certificate"]

    @property
    def ca(self) -> str:
        path = self.folder / "ca.pem"
        if not path.exists():  # written once: a server may be reading it
            self.signer.cert_pem.write_to_path(str(path))
        return str(path)
