"""The audit log of what people did to runs."""
