"""`sleipnir chat`: a conversation with an agent at the terminal, each message a run."""
