"""What only a GPU can tell of its kernels: numbers, tokens, graphs and times, as one JSON."""
