"""Measurements that are kept in a database, and what differs between them."""
