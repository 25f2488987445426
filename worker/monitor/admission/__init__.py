"""Who is admitted, and how often: by host, proxy, role, rate and ticket."""
