"""The HTTP side of the server: application, routes, schemas and request guards."""
