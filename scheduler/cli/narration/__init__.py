"""What happens to a run, as those who watch it are told."""
