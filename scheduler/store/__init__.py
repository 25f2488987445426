"""Everything stored in Redis, behind the only code that talks to it."""
