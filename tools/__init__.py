"""Programs that build what the package ships; none of them is needed to use it."""
