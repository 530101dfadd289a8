"""What a language model itself says about its answers, as methods."""
