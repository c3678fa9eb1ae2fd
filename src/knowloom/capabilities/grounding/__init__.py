"""Check an answer against its context, sentence by sentence, without a language model."""
