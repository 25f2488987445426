"""What Redis keeps for each person: named lists of runs, questions opened, links to answer by."""
