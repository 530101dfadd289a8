"""Methods that take gradients at the word embeddings, computed by captum."""
