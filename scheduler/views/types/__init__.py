"""The JSON documents of `--json`, the API and the pages, as types; imported for types only."""
