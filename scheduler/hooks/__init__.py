"""Delivers events to hooks: their bodies, the requests, and the threads that send them."""
