"""Help of the command line."""
