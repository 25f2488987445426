"""Many inputs, one run each; a command that was interrupted goes on where it was.

`lines` reads the input, `intake` checks all of it before anything is submitted, `ledger` keeps
it on disk, `identity` names the runs, `attempts` finds those of earlier starts, `drive` keeps as
many under way as wanted, `finished` reads the ones that ended, and `results` writes a row for each.
"""
