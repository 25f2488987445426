"""Knowledge bases, built once and then only searched: alone imports faiss and whoosh."""
