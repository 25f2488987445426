"""Model providers: the only place that knows litellm."""
