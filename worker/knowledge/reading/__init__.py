"""Reads the documents of knowledge bases: files, pages, and what commands make of others."""
