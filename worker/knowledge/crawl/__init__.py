"""Sites as documents: the pages below a URL, and what is read of GitHub in another way."""
