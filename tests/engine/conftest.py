"""JAX hygiene for the engine's tests: shapes and dtypes are checked at every call.

The hook must be in place before the modules it checks are imported. Compiled programs are kept
between runs, as a server keeps them.
"""

import jax
from jaxtyping import install_import_hook

from tests.golden import COMPILE_CACHE

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_compilation_cache_dir", str(COMPILE_CACHE))
install_import_hook(
    ["pantheon.engine.kernels", "pantheon.engine.model", "pantheon.engine.runner"],
    "beartype.beartype",
)
