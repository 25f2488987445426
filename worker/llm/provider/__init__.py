"""Model providers: the only package that knows litellm."""
