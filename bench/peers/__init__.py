"""Headgate beside other queues of Python on PostgreSQL: the same work on the same server."""
