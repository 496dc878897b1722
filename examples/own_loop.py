"""A device in a loop of your own: python examples/own_loop.py EXCHANGE NAME [TOKEN] < rows.csv"""

import sys

from elmgrove import FalseAlarmRate
from elmgrove.exchange import connect

where, name, token = [*sys.argv[1:], ""][:3]
rate = FalseAlarmRate(0.02)
with connect(where, name, token=token or None, state=f"{name}.elm", threshold=rate) as device:
    print(device.sync())  # from now on it asks the others, and borrows from them
    next(sys.stdin)  # the names of the columns
    for number, line in enumerate(sys.stdin, start=2):
        row = [float(cell) for cell in line.split(",")]
        verdict = device.detector.observe(row)
        if verdict.anomalous:
            print(f"line {number} is anomalous: {verdict.explain()[0].feature}")
    print(device.sync())  # as often as you like; the state is saved before anything leaves
