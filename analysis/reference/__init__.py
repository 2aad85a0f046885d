"""Latencies that others published, as data."""
