"""What processes of any kind need: threads, temporary files, helpers that can be stopped."""
