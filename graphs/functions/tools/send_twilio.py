"""Sends a message to a phone."""

# @env TWILIO_ACCOUNT_SID!  The account.
# @env TWILIO_AUTH_TOKEN!   Its token.
# @env TWILIO_FROM_NUMBER!  The number that sends, as in +15550100.
# @env TWILIO_API_URL=https://api.twilio.com  Where the service is.

import base64
import os
from urllib.parse import quote, urlencode

from sleipnir import web

WHATSAPP = "whatsapp:"


def run(to_number: str, message: str) -> str:
    """Send a text message (SMS), or a WhatsApp message.

    Args:
        to_number: The number of the recipient, as in +15550101; `whatsapp:+15550101` for WhatsApp.
        message: The text.
    """
    account, sender = os.environ["TWILIO_ACCOUNT_SID"], os.environ["TWILIO_FROM_NUMBER"]
    if to_number.startswith(WHATSAPP) and not sender.startswith(WHATSAPP):
        sender = WHATSAPP + sender
    credentials = f"{account}:{os.environ['TWILIO_AUTH_TOKEN']}".encode()
    place = f"/2010-04-01/Accounts/{quote(account, safe='')}/Messages.json"
    fields = {"To": to_number, "From": sender, "Body": message}
    request = web.Request(
        os.environ["TWILIO_API_URL"] + place,
        "POST",
        {
            "Authorization": f"Basic {base64.b64encode(credentials).decode()}",
            "Content-Type": "application/x-www-form-urlencoded",
        },
        urlencode(fields, errors="replace").encode(),
    )
    sent = web.ask_json("Twilio", request)
    if not isinstance(sent, dict) or not sent.get("sid"):
        raise SystemExit("Twilio did not say that it has sent the message")
    return f"Sent to {to_number}: {sent.get('status')} ({sent['sid']})"
