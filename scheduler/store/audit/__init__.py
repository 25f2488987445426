"""Who has done what to runs."""
