"""Run several strategies in parallel and pack the best of their results under one budget."""
