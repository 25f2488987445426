"""What a knowledge base is made of and how it is named: pure, without an engine."""
