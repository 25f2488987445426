"""The documents behind `--json`: one function a resource."""
