"""The scheduler process: whatever becomes due, in the partitions that it owns."""
