//! Each mode with good and bad certificates, and the sentence for each fault.

use std::sync::Arc;

use rcgen::{BasicConstraints, IsCa};
use rustls::ServerConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::testing::{Authority, Issued, params, server_config, valid};
use super::*;

/// Connects as `options` say to a server that echoes one byte; the sentence of what goes wrong, then or later.
async fn connect(options: &TlsOptions, server: Arc<ServerConfig>) -> Result<Encryption, String> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: ServerAddress = listener.local_addr().unwrap().to_string().parse().unwrap();
    let echo = tokio::spawn(async move {
        let (stream, _) = listener.accept().await?;
        let mut stream = TlsAcceptor::from(server).accept(stream).await?;
        let byte = stream.read_u8().await?;
        stream.write_u8(byte).await?;
        stream.shutdown().await
    });
    let stream = address.connect().await.unwrap();
    let stream = options.encrypt(&address, stream).await;
    let mut stream = stream.map_err(|fault| fault.to_string())?;
    let late = |error| options.explain_late(&error).map_or(error.to_string(), |f| f.to_string());
    stream.write_all(&[7]).await.map_err(late)?;
    stream.flush().await.map_err(late)?;
    assert_eq!(stream.read_u8().await.map_err(late)?, 7);
    echo.await.unwrap().unwrap();
    Ok(stream.encryption().unwrap().clone())
}

fn options(mode: SslMode, ca: &Authority) -> TlsOptions {
    TlsOptions { mode, ca: Some(ca.path()), client: None }
}

fn client(issued: &Issued) -> Option<ClientCertificate> {
    Some(ClientCertificate { cert: issued.cert.clone(), key: issued.key.clone() })
}

/// The sentence about a server with this certificate has all the words.
async fn refuses(options: &TlsOptions, issued: &Issued, words: &[&str]) {
    let said = connect(options, server_config(issued, None)).await.unwrap_err();
    assert!(words.iter().all(|word| said.contains(word)), "said: {said}\nwant: {words:?}");
}

async fn accepts(options: &TlsOptions, issued: &Issued) -> Encryption {
    connect(options, server_config(issued, None)).await.unwrap()
}

#[test]
fn each_mode_decides_by_what_is_offered_and_over_what() {
    let tcp: ServerAddress = "db:3306".parse().unwrap();
    let unix: ServerAddress = "unix:/s".parse().unwrap();
    let of = |mode| TlsOptions { mode, ..TlsOptions::default() };
    for (mode, offered, refused) in [
        (SslMode::Disabled, [false, false], [Some(false), Some(false)]),
        (SslMode::Preferred, [true, false], [Some(false), Some(false)]),
        (SslMode::Required, [true, true], [None, None]),
        (SslMode::VerifyCa, [true, true], [None, None]),
        (SslMode::VerifyIdentity, [true, true], [None, None]),
    ] {
        for (index, address) in [&tcp, &unix].into_iter().enumerate() {
            assert_eq!(of(mode).applies(address, true).unwrap(), offered[index], "{mode:?}");
            assert_eq!(of(mode).applies(address, false).ok(), refused[index], "{mode:?}");
        }
    }
    let sentence = of(SslMode::VerifyCa).applies(&tcp, false).unwrap_err().to_string();
    assert!(sentence.contains("offers no TLS and ssl_mode is VERIFY_CA"), "{sentence}");
}

#[tokio::test]
async fn a_good_certificate_is_taken_in_every_mode_and_told() {
    let ca = Authority::new("ca");
    let issued = ca.issue(&["127.0.0.1"]);
    for mode in [SslMode::Preferred, SslMode::Required, SslMode::VerifyCa, SslMode::VerifyIdentity]
    {
        let encryption = accepts(&options(mode, &ca), &issued).await;
        assert_eq!(encryption.protocol, "TLSv1_3");
        assert_eq!(encryption.upstream.unwrap().addresses, ["127.0.0.1"]);
    }
}

#[tokio::test]
async fn an_unknown_issuer_is_named_where_it_matters() {
    let (ca, other) = (Authority::new("ca"), Authority::new("stranger"));
    let issued = other.issue(&["127.0.0.1"]);
    accepts(&options(SslMode::Required, &ca), &issued).await;
    let words = ["CN=stranger", "not in ssl_ca", "ca.pem"];
    refuses(&options(SslMode::VerifyCa, &ca), &issued, &words).await;
    let own = other.self_signed(&params(&["127.0.0.1"], "lonely"));
    accepts(&options(SslMode::Preferred, &ca), &own).await;
    refuses(&options(SslMode::VerifyCa, &ca), &own, &["self-signed (", "CN=lonely"]).await;
}

#[tokio::test]
async fn a_wrong_name_is_told_with_the_right_ones() {
    let ca = Authority::new("ca");
    let issued = ca.issue(&["db1.example", "10.9.8.7"]);
    accepts(&options(SslMode::VerifyCa, &ca), &issued).await;
    let words = ["for db1.example, 10.9.8.7, not for 127.0.0.1"];
    refuses(&options(SslMode::VerifyIdentity, &ca), &issued, &words).await;
}

#[tokio::test]
async fn a_common_name_counts_where_there_is_no_other() {
    let ca = Authority::new("ca");
    let verify = options(SslMode::VerifyIdentity, &ca);
    accepts(&verify, &ca.issue_with(&params(&[], "127.0.0.1"))).await;
    refuses(&verify, &ca.issue_with(&params(&[], "db1")), &["for db1, not for 127.0.0.1"]).await;
    let both = ca.issue_with(&params(&["db1"], "127.0.0.1"));
    refuses(&verify, &both, &["for db1, not for 127.0.0.1"]).await;
}

#[tokio::test]
async fn dates_are_told() {
    let ca = Authority::new("ca");
    let verify = options(SslMode::VerifyCa, &ca);
    let expired = ca.issue_with(&valid(params(&["127.0.0.1"], "x"), -20, -10));
    refuses(&verify, &expired, &["expired at 20", "Z: give the upstream a new one"]).await;
    accepts(&options(SslMode::Required, &ca), &expired).await;
    let early = ca.issue_with(&valid(params(&["127.0.0.1"], "x"), 10, 20));
    refuses(&verify, &early, &["valid only from 20", "clocks"]).await;
}

#[tokio::test]
async fn a_servers_own_certificate_in_ssl_ca_is_believed_while_it_is_valid() {
    let ca = Authority::new("ca");
    let mut own = params(&["127.0.0.1"], "own");
    // As `openssl req -x509` makes them.
    own.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issued = ca.self_signed(&own);
    let trusting = |issued: &Issued| TlsOptions {
        ca: Some(issued.cert.clone()),
        ..options(SslMode::VerifyIdentity, &ca)
    };
    accepts(&trusting(&issued), &issued).await;
    let expired = ca.self_signed(&valid(own.clone(), -20, -10));
    refuses(&trusting(&expired), &expired, &["expired at"]).await;
    let early = ca.self_signed(&valid(own, 10, 20));
    refuses(&trusting(&early), &early, &["valid only from"]).await;
}

#[tokio::test]
async fn a_clients_certificate_is_shown_and_its_refusal_understood() {
    let (ca, other) = (Authority::new("ca"), Authority::new("stranger"));
    let server = || server_config(&ca.issue(&["127.0.0.1"]), Some(&ca));
    let with = |client| TlsOptions { client, ..options(SslMode::VerifyCa, &ca) };
    let (good, bad) = (ca.issue(&[]), other.issue(&[]));
    let encryption = connect(&with(client(&good)), server()).await.unwrap();
    assert!(encryption.own.unwrap().issuer.contains("CN=ca"));
    let said = connect(&with(None), server()).await.unwrap_err();
    assert!(said.contains("wants a client's certificate"), "{said}");
    let said = connect(&with(client(&bad)), server()).await.unwrap_err();
    assert!(said.contains("refuses the certificate in ssl_cert"), "{said}");
    assert!(said.contains("does not have the authority"), "{said}");
    let expired = ca.issue_with(&valid(params(&[], "c"), -20, -10));
    let said = connect(&with(client(&expired)), server()).await.unwrap_err();
    assert!(said.contains("it has expired"), "{said}");
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named() {
    let ca = Authority::new("ca");
    let issued = ca.issue(&["127.0.0.1"]);
    let other = ca.issue(&["127.0.0.1"]);
    let file = |name: &str, text: &str| {
        let path = ca.dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let missing = ca.dir.path().join("missing");
    let with_ca =
        |path: &PathBuf| TlsOptions { ca: Some(path.clone()), ..options(SslMode::VerifyCa, &ca) };
    refuses(&with_ca(&missing), &issued, &["ssl_ca", "missing cannot be used: No such file"]).await;
    refuses(&with_ca(&file("empty", "")), &issued, &["ssl_ca", "no certificate in PEM"]).await;
    let torn = "-----BEGIN CERTIFICATE-----\nAAAA\n";
    refuses(&with_ca(&file("torn", torn)), &issued, &["ssl_ca", "torn cannot be used"]).await;
    let junk = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    refuses(&with_ca(&file("junk", junk)), &issued, &["ssl_ca", "junk cannot be used"]).await;
    let pair = |cert: &PathBuf, key: &PathBuf| TlsOptions {
        client: Some(ClientCertificate { cert: cert.clone(), key: key.clone() }),
        ..options(SslMode::Preferred, &ca)
    };
    refuses(&pair(&missing, &issued.key), &issued, &["ssl_cert", "No such file"]).await;
    refuses(&pair(&issued.cert, &missing), &issued, &["ssl_key", "No such file"]).await;
    refuses(&pair(&issued.cert, &issued.cert), &issued, &["ssl_key", "no private key"]).await;
    refuses(&pair(&issued.key, &issued.key), &issued, &["ssl_cert", "no certificate"]).await;
    refuses(&pair(&issued.cert, &other.key), &issued, &["is not the key of"]).await;
    let sealed =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    refuses(&pair(&issued.cert, &file("sealed", sealed)), &issued, &["ssl_key", "passphrase"])
        .await;
}

#[tokio::test]
async fn a_server_that_speaks_no_tls_after_all_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: ServerAddress = listener.local_addr().unwrap().to_string().parse().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"\x07\0\0\x02 no TLS here").await.unwrap();
        stream.read_to_end(&mut Vec::new()).await
    });
    let stream = address.connect().await.unwrap();
    let fault = TlsOptions::default().encrypt(&address, stream).await.unwrap_err();
    assert!(matches!(fault, TlsFault::Unusable(_)), "{fault}");
}
