"""gpbounds."""
