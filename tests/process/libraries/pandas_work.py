"""pandas: copies and views of a frame that all requests share, groups, merges, files.

pandas asks how many references a frame has before it warns of a chained assignment, and copies on write.
"""

import io

import numpy as np
import pandas as pd

SHARED = pd.DataFrame(
    {
        "a": range(50),
        "b": [str(number % 7) for number in range(50)],
        "c": np.linspace(0, 1, 50),
        "d": pd.date_range("2024-01-01", periods=50),
    }
)


def work(number):
    changed = SHARED.copy()
    changed["e"] = changed["a"] * number
    groups = changed.groupby("b").agg({"a": "sum", "c": "mean", "e": "max"})
    view = SHARED[["a", "c"]].assign(f=lambda frame: frame["a"] + frame["c"])
    view.loc[:, "a"] = 0
    column = SHARED["a"] + 1
    column.iloc[0] = 99
    merged = SHARED.merge(groups, on="b", suffixes=("", "_of_group"))
    back = pd.read_csv(io.StringIO(SHARED.to_csv(index=False)))
    return [
        *(int(groups["a"].sum()), int(groups["e"].max()), int(view["a"].sum()), int(SHARED["a"].sum())),
        *(int(SHARED["a"].iloc[0]), int(column.iloc[0]), list(merged.shape), list(back.shape)),
        SHARED.query("a > 10 and c < 0.9").sort_values("c", ascending=False).head(3)["a"].tolist(),
        [int(total) for total in SHARED.set_index("d")["a"].resample("ME").sum()],
    ]
