"""Values and decisions: standard library only, no torch, no input or output."""
