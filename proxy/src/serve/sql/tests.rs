//! Statements from end to end.
