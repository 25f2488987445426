"""How a knowledge base is described and addressed: pure, without an engine."""
