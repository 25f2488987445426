"""Agents' tools: which functions their files declare, read without running them."""
