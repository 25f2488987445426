"""From a YAML file to an agent: reading, shapes, findings, and where agents are found."""
