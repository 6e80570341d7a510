//! Metrics of the replica port: connected replicas, bytes sent, lag.
