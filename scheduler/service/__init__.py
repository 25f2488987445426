"""The scheduler process: acts on due timers in the partitions that it owns."""
