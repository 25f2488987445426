"""Verbs that act on many runs at once: which ones their flags choose, and what came of each."""
