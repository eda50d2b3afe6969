"""What runs in a worker: each tick is taken once, and its effect can be had exactly once."""
