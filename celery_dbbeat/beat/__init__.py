"""The beat process: one replica of as many as you like."""
