"""What each operation of the API does, in terms of an engine. Knows no HTTP and no device."""
