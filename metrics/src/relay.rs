//! Metrics of the relay: connections, commands and their times.
