"""The call list: every public function on seeded inputs, one file a room, through public names only."""
