"""What a normal agent is beside its model and its tools: its prompt, its memory, its own tools."""
