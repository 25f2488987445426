"""The verbs of the command line, a module each; none imports another."""
