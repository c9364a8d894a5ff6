"""What two models and their keys and values take, planned before hours of work."""
