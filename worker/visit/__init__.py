"""What an executor sees of a visit, and what it returns."""
