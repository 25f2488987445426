"""What is decided of the runs of normal agents: pure, from records to records."""
