"""Operations with more than one implementation: each an api, a reference and its backends."""
