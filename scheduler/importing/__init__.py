"""Imports what runs unchanged from a configuration directory of Loki or Coyote.

Everything is examined and decided before the first file is written. Nothing that exists on either
side is changed, except our `config.yaml`, `mcp.json` and secrets file, to which entries are added.
"""
