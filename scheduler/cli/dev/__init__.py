"""`sleipnir dev`: watches an agent's files, and reruns what a save has changed."""
