"""What runs of an agent will do at least and at most: visits, model calls, tokens and money."""
