//! The status page: one self-contained HTML document, refreshed by the browser.

use std::fmt::Write as _;

use super::document::{Capture, Document, Replica, Source};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}\
table{border-collapse:collapse;width:100%;margin-bottom:1.5rem}td,th{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #ddd;\
vertical-align:top}th{font-weight:600}.ok{color:#176f2c}.bad{color:#a40e26}code{font-size:.9em}\
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181a1b}td,th{border-color:#444}.ok{color:#6bd28a}.bad{color:#ff8a9a}a{color:#8ab4f8}}";

/// The page for a document.
pub fn render(document: &Document) -> String {
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"5\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>Spillway</title><style>{STYLE}</style></head><body>\
         <h1>Spillway {}</h1>",
        escape(&document.version)
    );
    attention(&mut page, &document.attention);
    for source in &document.sources {
        source_table(&mut page, source);
    }
    log_table(&mut page, document);
    replica_table(&mut page, &document.replicas.connected, &document.replicas.listen);
    let about = format!("Server id {}, running since {}.", document.server_id, document.started);
    paragraph(&mut page, &about);
    page.push_str(
        "<p><a href=\"/status\">/status</a> <a href=\"/metrics\">/metrics</a> <a href=\"/readyz\">/readyz</a></p></body></html>\n",
    );
    page
}

fn attention(page: &mut String, sentences: &[String]) {
    if sentences.is_empty() {
        page.push_str("<p class=\"ok\">All is well.</p>");
    }
    for sentence in sentences {
        // Writing to a String cannot fail, here and below.
        let _ = write!(page, "<p class=\"bad\">{}</p>", escape(sentence));
    }
}

fn source_table(page: &mut String, source: &Source) {
    let capture = &source.capture;
    let relay = source.relay.as_ref().map_or("no relay".to_owned(), |relay| {
        format!("{} ({} connected)", relay.listen, relay.connections)
    });
    let state = format!("{} since {} {}", capture.state, capture.since, capture.reason);
    table(
        page,
        &format!("Source {}", source.name),
        &[
            ("server", source.server.clone()),
            ("version", source.server_version.clone().unwrap_or_else(|| "not seen yet".into())),
            ("apps connect to", relay),
            ("capture", state),
            ("last GTID", capture.last_gtid.clone()),
            ("last event", capture.last_event.clone().unwrap_or_default()),
            ("received", format!("{} transactions, {} bytes", capture.transactions, capture.bytes)),
            ("reconnects", reconnects(capture)),
            ("purged there in", capture.purge_in_seconds.map_or("not known".into(), lasting)),
            ("semi-sync", capture.semi_sync.clone().unwrap_or_else(|| "not set".into())),
        ],
    );
}

fn reconnects(capture: &Capture) -> String {
    let each = capture.reconnects.iter().map(|(reason, count)| format!("{reason} {count}"));
    let each: Vec<_> = each.collect();
    if each.is_empty() { "none".into() } else { each.join(", ") }
}

/// Seconds for people.
fn lasting(seconds: u64) -> String {
    format!("{} d {} h {} min", seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60)
}

fn log_table(page: &mut String, document: &Document) {
    let binlog = &document.binlog;
    table(
        page,
        "Log",
        &[
            ("directory", binlog.dir.clone()),
            ("state", format!("{:?} {}", binlog.state, binlog.reason)),
            ("files", format!("{} ({} bytes)", binlog.files, binlog.size_bytes)),
            ("end", format!("{} {}", binlog.file, binlog.position)),
            ("GTID position", binlog.gtid_position.clone()),
        ],
    );
}

fn table(page: &mut String, title: &str, rows: &[(&str, String)]) {
    let _ = write!(page, "<h2>{}</h2><table>", escape(title));
    for (name, value) in rows {
        let _ = write!(page, "<tr><th>{name}</th><td><code>{}</code></td></tr>", escape(value));
    }
    page.push_str("</table>");
}

fn replica_table(page: &mut String, replicas: &[Replica], listen: &str) {
    let _ = write!(page, "<h2>Replicas on {}</h2>", escape(listen));
    if replicas.is_empty() {
        return paragraph(page, "None is connected.");
    }
    page.push_str(
        "<table><tr><th>server id</th><th>host</th><th>at</th><th>bytes behind</th></tr>",
    );
    for replica in replicas {
        let _ = write!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{} {}</td><td>{}</td></tr>",
            replica.server_id,
            escape(&replica.host),
            escape(&replica.file),
            replica.position,
            replica.lag_bytes
        );
    }
    page.push_str("</table>");
}

fn paragraph(page: &mut String, text: &str) {
    let _ = write!(page, "<p>{}</p>", escape(text));
}

/// Reasons quote servers' error messages: nothing of them may become markup.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_outside_becomes_markup() {
        let evil = "<script>alert('x')</script>";
        let capture = Capture { reason: evil.into(), ..Capture::default() };
        let source = Source {
            name: evil.into(),
            server_version: Some(evil.into()),
            capture,
            ..Source::default()
        };
        let replica = Replica { host: evil.into(), ..Replica::default() };
        let mut document =
            Document { sources: vec![source], attention: vec![evil.into()], ..Document::default() };
        document.replicas.connected.push(replica);
        let page = render(&document);
        assert!(!page.contains("<script"), "{page}");
        assert_eq!(page.matches("&lt;script&gt;").count(), 5, "{page}");
    }

    #[test]
    fn the_page_needs_nothing_from_elsewhere() {
        let page = render(&Document::default());
        assert!(page.contains("All is well."));
        for outside in ["http://", "https://", "src=", "<link", "@import"] {
            assert!(!page.contains(outside), "{outside}");
        }
    }
}
