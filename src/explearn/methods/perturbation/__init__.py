"""Methods that look at how predictions change when words are left out."""
