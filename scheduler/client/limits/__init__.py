"""Limits of model calls as people see and change them."""
