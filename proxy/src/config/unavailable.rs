//! Sections of the interface without a function in this release: their keys are known, and refused with one sentence.

use super::key::Unavailable;
use super::section::Keys;

/// `ssl_cert` of a listener.
pub(super) const SSL_CERT: Unavailable = Unavailable {
    name: "ssl_cert",
    meaning: "The certificate shown to clients of this port (PEM).",
    today: None,
};

/// `ssl_key` of a listener.
pub(super) const SSL_KEY: Unavailable = Unavailable {
    name: "ssl_key",
    meaning: "The private key of the certificate (PEM).",
    today: None,
};

/// `require_secure_transport` of a listener.
pub(super) const REQUIRE_SECURE_TRANSPORT: Unavailable = Unavailable {
    name: "require_secure_transport",
    meaning: "Refuse clients of this port that do not use TLS.",
    today: Some("false"),
};

const PROXY_PROTOCOL_NETWORKS: Unavailable = Unavailable {
    name: "proxy_protocol_networks",
    meaning: "The networks whose PROXY header is believed.",
    today: Some("[]"),
};

const PROXY_PROTOCOL_TO_UPSTREAM: Unavailable = Unavailable {
    name: "proxy_protocol_to_upstream",
    meaning: "Tell the upstream the client's address with a PROXY header.",
    today: Some("false"),
};

/// `[relay]`.
pub(super) const RELAY_KEYS: Keys = &[
    &SSL_CERT,
    &SSL_KEY,
    &REQUIRE_SECURE_TRANSPORT,
    &PROXY_PROTOCOL_NETWORKS,
    &PROXY_PROTOCOL_TO_UPSTREAM,
];
