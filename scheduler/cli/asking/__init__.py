"""Questions of commands to the person at the terminal, beside those of runs."""
