"""Free text structured by a language model into three layers."""
