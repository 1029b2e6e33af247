"""The call list: every public function on seeded inputs, one file per package, through public names only."""
