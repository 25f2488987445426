"""Second chances: going on from what a run has done already, in place or in a new run."""
