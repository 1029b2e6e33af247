"""Studies of a table and of a trained model, from rows to one record: plan, audit; the command line shows them."""
