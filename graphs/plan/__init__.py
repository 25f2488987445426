"""How often a run visits each node, and how many model calls that makes: bounds from the file."""
