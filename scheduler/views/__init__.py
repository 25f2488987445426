"""The JSON documents behind `--json`, the pages and the API: one function per resource."""
