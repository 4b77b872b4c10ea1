"""What every implementation of paged attention is compared with."""

import numpy as np

from pantheon.engine.kernels.paged_attention.cases import Case


def softmax_attention(case: Case, arguments: tuple[np.ndarray, ...]) -> np.ndarray:
    """Textbook attention in float64 numpy, one query at a time (Vaswani et al., 2017)."""
    query, keys, values, tables, positions, lengths = arguments
    result = np.zeros(query.shape)
    for row, length in enumerate(lengths):
        pages = tables[row, : -(-length // case.page_size)]
        for time in range(case.time if length else 0):
            seen = min(positions[row, time] + 1, length)
            first = max(seen - case.window, 0) if case.window else 0
            for head in range(case.heads):
                kv_head = head // (case.heads // case.kv_heads)
                k, v = (
                    np.concatenate([held[page, kv_head] for page in pages])[first:seen].astype(
                        float
                    )
                    for held in (keys, values)
                )
                scores = k @ query[row, time, head].astype(float) * case.head_dim**-0.5
                weights = np.exp(scores - scores.max())
                result[row, time, head] = weights / weights.sum() @ v
    return result
