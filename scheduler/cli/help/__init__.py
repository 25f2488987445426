"""What the command line says of itself."""
