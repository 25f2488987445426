"""What a model call waits for before it is made."""
