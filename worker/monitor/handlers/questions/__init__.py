"""Questions to people: the inbox, single questions, and their answers."""
