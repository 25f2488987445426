"""The node from which planning and the look into our own notes begin side by side."""

from node import write

write()
