"""What reaches the engine from outside: answers by links, and requests that start runs."""
