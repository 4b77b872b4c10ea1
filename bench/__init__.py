"""Benchmarks: the server beside llama.cpp, and the kernels beside their references."""
