"""A package with two methods for tests of worker processes: one takes time, one kills the process that runs it."""

SOURCE = '''
import os, signal, time
import numpy as np
import sightline as sl


def lengths(trace):
    return np.array([len(token) for token in trace.encoding.tokens], dtype=float)


@sl.method("slow", title="Slow", summary="Length of tokens, after a while.", signed=False, class_specific=False)
def slow(trace):
    """Return the number of characters, (n,)."""
    time.sleep(0.05)
    return sl.methods.Attribution(lengths(trace))


@sl.method("lethal", title="Lethal", summary="Length of tokens.", signed=False, class_specific=False)
def lethal(trace):
    """Return the number of characters, (n,), unless the text is poison."""
    if "poison" in trace.encoding.text:
        os.kill(os.getpid(), signal.SIGKILL)
    return sl.methods.Attribution(lengths(trace))
'''
