//! The JSON status document.
