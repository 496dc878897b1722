"""Two pumps, two speeds: after one exchange each knows both."""

import numpy as np

from elmgrove import Detector, HiddenLayer

rng = np.random.default_rng(0)  # 20 sensors of two pumps, one slow and one fast
slow, fast = (rng.normal(size=(1000, 3)) @ rng.normal(size=(3, 20)) for _ in range(2))
a, b = (Detector(HiddenLayer(inputs=20, units=8, seed=7)) for _ in range(2))  # alike
a.learn_many(slow)  # or learn_one(row), from the very first row on
b.learn_many(fast)
print(f"slow at b, before: {b.score_many(slow).mean():.2g}")
b.merge(a.evidence)  # in one shot: b is as if it had learned all rows
print(f"slow at b, after:  {b.score_many(slow).mean():.2g}")
verdict = b.observe(slow[0] + 5 * (np.arange(20) == 3))  # sensor 3 is off by 5
print(f"anomalous: {verdict.anomalous}, because of {verdict.explain()[0].feature}")
