//! One upstream cluster as the other parts see it: address, greeting, state.
