"""Text to vectors: one file per embedder. The registry names them; nothing else imports them."""
