"""What reaches the engine from outside, as people make, change and remove it."""
