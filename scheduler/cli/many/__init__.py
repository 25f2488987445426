"""Shared by verbs that act on many runs: flags that select runs, results, consent."""
