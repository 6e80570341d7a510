//! Proofs of a password, as the test client gives them.

use sha1::{Digest, Sha1};
use sha2::Sha256;

/// mysql_native_password's answer to a salt.
pub(crate) fn native_token(password: &str, scramble: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let stage1 = Sha1::digest(password.as_bytes());
    let stage2 = Sha1::digest(stage1);
    let mut salted = scramble.to_vec();
    salted.extend_from_slice(&stage2);
    let mask = Sha1::digest(&salted);
    stage1.iter().zip(mask.iter()).map(|(a, b)| a ^ b).collect()
}

/// caching_sha2_password's first answer to a salt.
pub(crate) fn caching_sha2_token(password: &str, scramble: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let stage1 = Sha256::digest(password.as_bytes());
    let mut salted = Sha256::digest(stage1).to_vec();
    salted.extend_from_slice(scramble);
    let mask = Sha256::digest(&salted);
    stage1.iter().zip(mask.iter()).map(|(a, b)| a ^ b).collect()
}
