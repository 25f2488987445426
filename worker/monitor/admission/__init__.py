"""What decides who is let in, and how often: by host, proxy, role, rate and ticket."""
