"""A model in a tool loop: turns, tools, structured output, and the record that survives a crash."""
