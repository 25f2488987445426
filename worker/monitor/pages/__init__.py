"""What pages are made of: their templates, the parts they share, and those that forms lead to."""
