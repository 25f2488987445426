"""Lists as text tables: printed by commands, and given by the monitor to those who ask for text."""
