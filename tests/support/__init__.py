"""What the tests stand on: real servers, real processes, a network that can be broken."""
