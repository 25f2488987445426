"""The limits that a model call may have to wait for."""
