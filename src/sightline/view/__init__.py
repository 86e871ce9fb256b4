"""What people look at: the page, the notebook fragment and the terminal. Views never recompute, they only show."""
