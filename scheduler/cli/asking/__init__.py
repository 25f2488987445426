"""Questions of commands, not of runs, to the person at the terminal."""
