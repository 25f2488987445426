"""Traces and metrics by OpenTelemetry, of any of our processes; nothing is imported while off."""
