"""What pages draw besides graphs: items at a glance, visits over time, shares of a whole."""
