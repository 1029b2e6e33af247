"""First guesses of hyperparameters, and short runs on few rows that improve them."""
