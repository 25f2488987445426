"""Many inputs, one run each; a command that was interrupted goes on where it was.

`lines` reads the input, `intake` checks all of it before anything is submitted, `ledger` keeps
it on disk, `identity` names the runs, `drive` keeps as many of them under way as wanted, and
`results` writes what they came to.
"""
