"""The documents of knowledge bases, read: files, pages, what commands make of others."""
