"""The functions that the engine itself offers to normal agents, one file per group."""
