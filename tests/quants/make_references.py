#!/usr/bin/env python3
"""Makes the reference files of this folder: blocks of random bytes, and the float32 numbers that the `gguf` package expands them to.

    pip install gguf numpy
    python3 make_references.py

Each type gets `NAME.blocks`, four rows of 256 elements as a file stores them, and `NAME.f32`, the numbers,
little-endian. The seed is fixed, so the files change only when the package or this script does.
"""

import pathlib

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as T
from gguf.quants import dequantize

SEED = 20261130
ROWS, COLUMNS = 4, 256
# Where a block has f16 numbers, as offsets in bytes.
SCALES = {
    T.F16: [0],
    T.Q4_0: [0],
    T.Q4_1: [0, 2],
    T.Q5_0: [0],
    T.Q5_1: [0, 2],
    T.Q8_0: [0],
    T.Q4_K: [0, 2],
    T.Q5_K: [0, 2],
    T.Q6_K: [208],
}
TYPES = [T.BF16, *SCALES]


def finite_halves(random, count):
    """Numbers of either sign, none zero; one in eight is too small to be normal."""
    exponents = np.where(random.integers(0, 8, count) == 0, 0, random.integers(1, 20, count))
    fractions = random.integers(1, 1024, count)
    signs = random.integers(0, 2, count)
    return (signs << 15 | exponents << 10 | fractions).astype("<u2")


def main():
    random = np.random.default_rng(SEED)
    folder = pathlib.Path(__file__).parent
    for kind in TYPES:
        elements, size = GGML_QUANT_SIZES[kind]
        blocks = random.integers(0, 256, (ROWS * COLUMNS // elements, size), dtype=np.uint8)
        for at in SCALES.get(kind, []):
            blocks[:, at : at + 2] = finite_halves(random, len(blocks)).view(np.uint8).reshape(-1, 2)
        if kind == T.BF16:
            # An exponent of all ones is no number.
            blocks[:, 1] &= 0xBF
        numbers = dequantize(blocks.reshape(ROWS, -1), kind).astype("<f4")
        assert numbers.shape == (ROWS, COLUMNS) and np.isfinite(numbers).all() and np.count_nonzero(numbers) > 700
        name = kind.name.lower()
        (folder / f"{name}.blocks").write_bytes(blocks.tobytes())
        (folder / f"{name}.f32").write_bytes(numbers.tobytes())


if __name__ == "__main__":
    main()
