"""IvRA and Attention-SMaT: attention that is trained, with its classifier, to explain it (Xie et al. 2024)."""
