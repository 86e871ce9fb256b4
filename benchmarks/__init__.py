"""Side-by-side measurements: each module compares our form with a peer or the plain form, in one run on one machine.

`python -m benchmarks.NAME [--quick] [--json]`
"""
