"""How two runs differ, laid out for people."""
