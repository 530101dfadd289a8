"""Methods that ask a language model for its own reasons."""
