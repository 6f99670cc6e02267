"""Measurements that take long, each behind one command; no part of the package."""
