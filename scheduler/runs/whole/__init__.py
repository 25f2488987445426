"""Everything that is stored of one run, and the file of it that archives and exports have."""
