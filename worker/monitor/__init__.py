"""Flower on our workers."""
