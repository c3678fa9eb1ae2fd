"""Request and response models of the HTTP routes, one module per family."""
