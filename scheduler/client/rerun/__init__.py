"""Second chances: retries in place and forks, which continue from what a run has done already."""
