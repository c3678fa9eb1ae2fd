"""Whether an answer says what its context says: sentence by sentence, by words, names and numbers, without a language model."""
