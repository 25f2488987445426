"""Agents as bundles, the blobs that are sent to workers."""
