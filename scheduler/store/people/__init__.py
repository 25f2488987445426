"""What Redis keeps for each person: named lists of runs, and which questions were opened."""
