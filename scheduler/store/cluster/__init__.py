"""Redis Cluster: groups of partitions, their keys, and clients that find the right node."""
