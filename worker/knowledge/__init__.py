"""Knowledge bases, built once and then searched; only this package imports faiss and whoosh."""
