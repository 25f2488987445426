"""Hooks: which events are sent where, and when again."""
