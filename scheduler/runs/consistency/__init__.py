"""What must hold of every run at every instant, and which repair a broken rule has."""
