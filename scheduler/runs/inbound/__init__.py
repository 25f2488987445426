"""What reaches the engine from outside: answers by links."""
