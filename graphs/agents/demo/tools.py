"""The functions of the demonstration: every one at the top level is offered to the model."""

# @env PUBLIC_IP_URL=https://api.ipify.org  A service that answers with the address of who asks.

import os

from sleipnir import web


def get_public_ip() -> str:
    """Tell the public IP address of the machine that runs the tools."""
    return web.ask("the address service", web.get(os.environ["PUBLIC_IP_URL"])).text.strip()
