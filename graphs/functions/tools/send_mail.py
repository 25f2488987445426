"""Sends mail."""

# @env EMAIL_SMTP_ADDR!  The server: `host`, `host:port` or `smtps://host:port`.
# @env EMAIL_SMTP_USER!  Who signs in; also the sender's address.
# @env EMAIL_SMTP_PASS!  The password.
# @env EMAIL_SENDER_NAME  The sender's name.

import os
import smtplib
import ssl
from email.message import EmailMessage
from email.utils import formataddr
from urllib.parse import urlsplit

TIMEOUT_S = 30
# On this port TLS begins at once; on others it is asked for, and insisted on.
TLS_PORT = 465


def run(recipient: str, subject: str, body: str) -> str:
    """Send a mail as plain text.

    Args:
        recipient: The address of the recipient.
        subject: The subject line.
        body: The text of the mail.
    """
    user = os.environ["EMAIL_SMTP_USER"]
    message = EmailMessage()
    try:
        message["From"] = formataddr((os.environ.get("EMAIL_SENDER_NAME") or "", user))
        message["To"] = recipient
        message["Subject"] = subject
    except ValueError as error:  # a line break would begin another header
        raise SystemExit(f"the recipient or the subject is not valid: {error}") from error
    message.set_content(body)
    try:
        with _server(os.environ["EMAIL_SMTP_ADDR"]) as server:
            server.login(user, os.environ["EMAIL_SMTP_PASS"])
            server.send_message(message)
    except (OSError, smtplib.SMTPException) as error:
        raise SystemExit(f"the mail was not sent: {error}") from error
    return f"Sent the mail to {recipient}"


def _server(address: str) -> smtplib.SMTP:
    """Connect to the server, always over TLS."""
    url = urlsplit(address if "://" in address else f"//{address}")
    if not url.hostname:
        raise SystemExit(f"EMAIL_SMTP_ADDR names no host: {address}")
    port = url.port or (TLS_PORT if url.scheme == "smtps" else 587)
    context = ssl.create_default_context()
    if url.scheme == "smtps" or port == TLS_PORT:
        return smtplib.SMTP_SSL(url.hostname, port, timeout=TIMEOUT_S, context=context)
    server = smtplib.SMTP(url.hostname, port, timeout=TIMEOUT_S)
    try:
        server.starttls(context=context)
    except BaseException:
        server.close()
        raise
    return server
