"""From a YAML file to an agent: parsing, shapes, findings, and finding agents."""
