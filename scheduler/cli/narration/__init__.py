"""Live narration of a run on the terminal."""
