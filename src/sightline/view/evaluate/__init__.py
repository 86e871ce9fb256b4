"""Tables, plots and page of an evaluation."""
