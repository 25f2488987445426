"""The tools of agents: what functions their files declare, read without running them."""
