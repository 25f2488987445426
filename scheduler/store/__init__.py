"""Everything that is kept in Redis, and the only place that talks to it."""
