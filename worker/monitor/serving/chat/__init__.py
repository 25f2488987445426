"""Agents as models of an OpenAI-compatible server, below /v1."""
