"""The archive as documents."""
