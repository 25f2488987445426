"""`sleipnir bench rag`: how fast knowledge bases are, and how well they find what is asked for."""
