"""Methods that need no training, a folder for each family."""
