"""Knowledge bases in Redis: built once, fetched by every worker machine."""
