"""What runs of normal agents do to each other."""
