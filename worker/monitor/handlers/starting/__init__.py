"""What starts runs: the form of an agent's page, and batches from files."""
