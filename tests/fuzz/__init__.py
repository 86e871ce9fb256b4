"""Fuzzing the doors: seeded attacks on everything that reads what strangers wrote.

harness.py         runs the cases of one door in limited sub-processes and judges every outcome
worker.py          one sub-process: many cases, one after the other
mutations.py       damage to JSON, bytes and strings that every door can use
doors.py           the list of doors
model_files.py     damage to tensors, their files, and pickles that run code
model_folders.py, texts.py, saved_files.py, data_sets.py, documents.py, stores.py, training_folders.py, http_requests.py
                   one door each: how to build a case, and what opening it means

`make fuzz` runs many cases and prints a table; the tests run a few. `python -m tests.fuzz DOOR --first 17 --count 1
--show` repeats case 17 and shows what happened. A new door is a class with the two methods of `Door` and an entry in
doors.py.
"""
