"""What a user may set, and what is refused before any work."""
