"""How fast and how punctual: real `celery beat` processes, measured by what reaches the broker.

`python -m benchmarks [case …] [--size N] [--json FILE]`
"""
