"""Sites as documents: the pages below a URL, and special handling for GitHub."""
