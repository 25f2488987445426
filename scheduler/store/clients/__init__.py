"""Clients of Redis for programs: whose errors are ours, and which wait on asyncio."""
