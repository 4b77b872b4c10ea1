"""Pantheon: an LLM server for coding agents."""
