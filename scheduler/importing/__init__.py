"""Takes over what runs unchanged from a configuration directory of Loki or Coyote.

Everything is looked at and decided before the first file is written, and nothing of what is there
already, on either side, is changed but our `config.yaml`, `mcp.json` and secrets file, to which
entries are added.
"""
