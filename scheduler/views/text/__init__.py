"""What commands and the monitor both print as text."""
