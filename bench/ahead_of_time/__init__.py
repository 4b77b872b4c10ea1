"""GPU kernels compiled on a machine without a GPU: what they need, and what they move."""
