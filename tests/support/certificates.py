"""Creates certificates for test servers and their clients."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def certificate(directory: Path) -> Path:
    """Create a certificate for 127.0.0.1 with its key, in one file."""
    key, made = directory / "key.pem", directory / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", *_NEW_KEY, "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(made)),
        ],
        check=True,
        capture_output=True,
    )
    made.write_text(key.read_text() + made.read_text())
    return made


def server_context(certificate: Path) -> ssl.SSLContext:
    """Return the TLS context of a server with this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


class PrivateCA:
    """A certificate authority that only those know who are given its `certificate`."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._directory = directory
        self.certificate, self._key = directory / "ca.pem", directory / "ca-key.pem"
        self._openssl(
            *("req", "-x509", *_NEW_KEY, "-days", "2", "-subj", "/CN=private CA"),
            *("-keyout", str(self._key), "-out", str(self.certificate)),
        )

    def issue(self, name: str, address: str) -> tuple[Path, Path]:
        """Return a certificate for an address, such as `IP:127.0.0.1`, and its key."""
        made, key, asked = (self._directory / f"{name}{end}" for end in (".pem", ".key", ".csr"))
        extension = f"subjectAltName={address}"
        self._openssl(
            *("req", "-new", *_NEW_KEY, "-subj", f"/CN={name}", "-addext", extension),
            *("-keyout", str(key), "-out", str(asked)),
        )
        self._openssl(
            *("x509", "-req", "-in", str(asked), "-days", "2", "-copy_extensions", "copy"),
            *("-CA", str(self.certificate), "-CAkey", str(self._key), "-CAcreateserial"),
            *("-out", str(made)),
        )
        return made, key

    def client_options(self) -> dict[str, str]:
        """Return the options of a URL for clients: this CA, and a certificate."""
        certificate, key = self.issue("client", "DNS:worker")
        return {
            "ssl_ca_certs": str(self.certificate),
            "ssl_certfile": str(certificate),
            "ssl_keyfile": str(key),
        }

    @staticmethod
    def _openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)
