"""Reading and writing files safely: whole or not at all, foreign files within limits, folders that are ours."""
