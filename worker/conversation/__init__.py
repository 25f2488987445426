"""A model in a tool loop: turns, tools, structured output, what survives a crash."""
