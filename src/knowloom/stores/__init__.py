"""Where knowledge lives: one file per backend. The registry names them; nothing else imports them."""
