"""JAX hygiene for the engine's tests: shapes and dtypes are checked at every call.

The hook must be in place before the modules it checks are imported.
"""

import jax
from jaxtyping import install_import_hook

jax.config.update("jax_numpy_dtype_promotion", "strict")
install_import_hook(
    ["pantheon.engine.kernels", "pantheon.engine.model", "pantheon.engine.runner"],
    "beartype.beartype",
)
