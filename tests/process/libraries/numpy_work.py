"""NumPy: temporary arrays that are used again in place, arrays that are resized, objects and structures in arrays.

NumPy asks how many references an array has before it writes to it in place (temporaries) and before it resizes it.
"""

import numpy as np

SHARED = np.arange(100_000.0)
SMALL = np.arange(20.0)


def work(number):
    before = float(SHARED.sum())
    squares = (SHARED + number) * 2 - SHARED  # large enough for temporaries to be used again
    kept = SHARED + SHARED + SHARED + 1.0
    grown = np.arange(10.0)
    grown.resize(20)
    again = SMALL
    del again
    solved = np.linalg.solve(np.outer(SMALL, SMALL) + np.eye(20), SMALL)
    texts = np.array([str(each) for each in range(5)], dtype=object) + "x"
    table = np.zeros(3, dtype=[("x", "i4"), ("y", "f8")])
    table["x"] = number
    return [
        *(
            before,
            float(squares.sum()),
            float(kept.sum()),
            float(SHARED.sum()),
            grown.size,
            round(float(solved.sum()), 6),
        ),
        *(texts.tolist(), table.tolist(), np.random.default_rng(number).integers(0, 100, 5).tolist()),
        str(np.datetime64("2024-01-01") + number),
    ]
