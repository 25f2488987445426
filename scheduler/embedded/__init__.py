"""The engine that commands start for themselves: a private Redis, workers, a supervisor."""
