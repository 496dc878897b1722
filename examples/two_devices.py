"""Two devices, two normal patterns: after one exchange each knows both."""

import numpy as np

from elmgrove import Detector, HiddenLayer

rng = np.random.default_rng(0)
patterns = rng.normal(size=(2, 3, 20))  # two normal patterns, seen by 20 sensors
sitting, laying = (rng.normal(size=(1000, 3)) @ pattern for pattern in patterns)

layer = HiddenLayer(inputs=20, units=8, seed=7)  # the same on every device
a, b = Detector(layer), Detector(layer)
a.learn_many(sitting)  # or learn_one(row), from the very first row on
b.learn_many(laying)
print(f"sitting at b, before: {b.score_many(sitting).mean():.2g}")

b.merge(a.evidence)  # the cooperative model update, in one shot
print(f"sitting at b, after:  {b.score_many(sitting).mean():.2g}")

row = laying[0] + 5 * (np.arange(20) == 3)  # sensor 3 is off by 5
verdict = b.observe(row)  # scores, decides, learns unless strange
cause = b.causes(verdict)[0]
print(
    verdict.anomalous, verdict.learned, f"{cause.feature}: off by {cause.seen - cause.expected:.2f}"
)
