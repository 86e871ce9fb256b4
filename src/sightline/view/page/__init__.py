"""The reading page: payload, HTML file, notebook widget and static fragment."""
