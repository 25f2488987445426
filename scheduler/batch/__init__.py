"""Batches: one run per line of an input; an interrupted command continues where it stopped.

`lines` reads the input, `intake` checks all of it before anything is submitted, `ledger` keeps it
on disk, `identity` names the runs, `attempts` finds those of earlier starts, `drive` keeps as many
running as wanted, `finished` reads ended runs, `redo` chooses
some to run again, and `results` is what is said of them.
"""
