"""Hidden states split into one vector for each token they stem from; no gradients."""
