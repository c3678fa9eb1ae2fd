"""Evaluation of retrieval: questions, metrics, significance, reports and tuning."""
