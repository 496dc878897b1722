"""Two devices, two normal patterns: after one exchange each knows both."""

import numpy as np

from elmgrove import Detector, HiddenLayer

rng = np.random.default_rng(0)
sitting, laying = (rng.normal(size=(1000, 3)) @ rng.normal(size=(3, 20)) for _ in range(2))
layer = HiddenLayer(inputs=20, units=8, seed=7)  # the same on every device
a, b = Detector(layer), Detector(layer)
a.learn_many(sitting)  # or learn_one(row), from the very first row on
b.learn_many(laying)
print(f"sitting at b, before: {b.score_many(sitting).mean():.2g}")
b.merge(a.evidence)  # in one shot: b is as if it had learned all rows
print(f"sitting at b, after:  {b.score_many(sitting).mean():.2g}")
verdict = b.observe(sitting[0] + 5 * (np.arange(20) == 3))  # sensor 3 is off by 5
print(f"strange: {verdict.anomalous}, because of {b.causes(verdict)[0].feature}")
