"""The only SQL: named statements in `.sql` files, one a table, and the Python that runs them.

Frozen values go in and come out; rows and dicts stay here.
"""
