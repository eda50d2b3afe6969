"""What this package has for other packages; nothing else in it needs them."""
