"""Knowledge bases of an agent that is submitted."""
