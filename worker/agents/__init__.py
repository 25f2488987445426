"""What normal agents have besides models and tools: their prompt, memory and built-in functions."""
