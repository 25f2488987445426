"""What a run is, and what follows from what happened to it. No Redis here."""
