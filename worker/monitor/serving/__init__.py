"""Agents served to programs that speak other protocols than ours."""
