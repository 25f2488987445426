"""The case `capacity`: what an installation carries, measured and by a model."""
