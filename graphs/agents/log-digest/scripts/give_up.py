"""Fail the run: a script that fails and has neither `fallback` nor `next` does."""

from node import fail, read_state

reason = read_state()["error"] or "there is no log to digest"
fail(reason.removeprefix("Script node failed: exit code 1: "))
