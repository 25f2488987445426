"""Files with secrets: keys, and the URL of Redis with its password."""
