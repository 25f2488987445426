"""Creates certificates for test servers."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path


def certificate(directory: Path) -> Path:
    """Create a certificate for 127.0.0.1 with its key, in one file."""
    key, made = directory / "key.pem", directory / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt"),
            *("ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost"),
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
