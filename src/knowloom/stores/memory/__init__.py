"""Knowledge in dictionaries: lost when the process ends; the reference for other stores."""
