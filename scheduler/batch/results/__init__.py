"""What is said of a batch's ended lines: a result line each, in files and for expressions."""
