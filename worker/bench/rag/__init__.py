"""`sleipnir bench rag`: how well and how fast knowledge bases find what is asked for."""
