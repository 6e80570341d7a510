//! opensrv-mysql's view of a session: it asks, the session and `sql` answer.

use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use opensrv_mysql::{
    AsyncMysqlShim, Column, InitWriter, OkResponse, ParamParser, QueryResultWriter, RowWriter,
    StatementMetaWriter, StatusFlags,
};
use tokio::io::AsyncWrite;

use super::account::NATIVE_PASSWORD;
use super::session::Session;
use super::sql::{self, Answer, EventRows, Rows, Value};

/// See the module's description.
pub(super) struct Shim {
    pub session: Arc<Session>,
    /// What the greeting says.
    pub version: String,
}

#[async_trait]
impl<W: AsyncWrite + Send + Unpin> AsyncMysqlShim<W> for Shim {
    type Error = io::Error;

    fn version(&self) -> String {
        self.version.clone()
    }

    fn connect_id(&self) -> u32 {
        self.session.connection.id
    }

    fn default_auth_plugin(&self) -> &str {
        NATIVE_PASSWORD
    }

    async fn auth_plugin_for_username(&self, _user: &[u8]) -> &str {
        self.session.login_plugin()
    }

    fn salt(&self) -> [u8; 20] {
        self.session.salt
    }

    async fn authenticate(&self, plugin: &str, user: &[u8], _salt: &[u8], response: &[u8]) -> bool {
        self.session.authenticate(&String::from_utf8_lossy(user), plugin, response)
    }

    async fn on_prepare<'a>(
        &'a mut self,
        query: &'a str,
        info: StatementMetaWriter<'a, W>,
    ) -> io::Result<()> {
        let prepared = sql::columns(&self.session, query)
            .and_then(|columns| Ok((self.session.keep_statement(query)?, columns)));
        match prepared {
            Ok((id, columns)) => {
                let columns = sql::describe(&columns);
                info.reply(id, &[] as &[Column], &columns).await
            }
            Err(error) => info.error(error.kind, error.message.as_bytes()).await,
        }
    }

    async fn on_execute<'a>(
        &'a mut self,
        id: u32,
        _params: ParamParser<'a>,
        results: QueryResultWriter<'a, W>,
    ) -> io::Result<()> {
        let text = self.session.statement(id).unwrap_or_default();
        run(&self.session, text, results).await
    }

    async fn on_close<'a>(&'a mut self, id: u32)
    where
        W: 'async_trait,
    {
        self.session.drop_statement(id);
    }

    async fn on_query<'a>(
        &'a mut self,
        query: &'a str,
        results: QueryResultWriter<'a, W>,
    ) -> io::Result<()> {
        run(&self.session, query.to_owned(), results).await
    }

    async fn on_init<'a>(&'a mut self, name: &'a str, info: InitWriter<'a, W>) -> io::Result<()> {
        self.session.set_database(name);
        info.ok().await
    }
}

async fn run<W: AsyncWrite + Send + Unpin>(
    session: &Arc<Session>,
    text: String,
    results: QueryResultWriter<'_, W>,
) -> io::Result<()> {
    session.begin_statement(&text);
    // BINLOG_GTID_POS reads a file up to a position: not on a thread that serves others.
    let executing = Arc::clone(session);
    let executed = tokio::task::spawn_blocking(move || sql::execute(&executing, &text)).await;
    let written = match executed.map_err(io::Error::other)? {
        Ok(Answer::Ok) => results.completed(ok()).await,
        Ok(Answer::Rows(rows)) => write_rows(rows, results).await,
        Ok(Answer::Events(rows)) => write_events(*rows, results).await,
        Err(error) => results.error(error.kind, error.message.as_bytes()).await,
    };
    session.end_statement();
    written
}

fn ok() -> OkResponse {
    OkResponse { status_flags: StatusFlags::SERVER_STATUS_AUTOCOMMIT, ..OkResponse::default() }
}

async fn write_rows<W: AsyncWrite + Send + Unpin>(
    rows: Rows,
    results: QueryResultWriter<'_, W>,
) -> io::Result<()> {
    let columns = sql::describe(&rows.columns);
    let mut writer = results.start(&columns).await?;
    for row in rows.rows {
        write_row(&mut writer, row).await?;
    }
    writer.finish().await
}

async fn write_events<W: AsyncWrite + Send + Unpin>(
    mut rows: EventRows,
    results: QueryResultWriter<'_, W>,
) -> io::Result<()> {
    let columns = sql::describe(&Rows::new(&EventRows::COLUMNS).columns);
    let mut writer = results.start(&columns).await?;
    loop {
        match rows.next_rows() {
            Ok(batch) if batch.is_empty() => return writer.finish().await,
            Ok(batch) => {
                for row in batch {
                    write_row(&mut writer, row).await?;
                }
            }
            Err(error) => {
                return writer.finish_error(error.kind, &error.message.into_bytes()).await;
            }
        }
    }
}

async fn write_row<W: AsyncWrite + Send + Unpin>(
    writer: &mut RowWriter<'_, W>,
    row: Vec<Value>,
) -> io::Result<()> {
    for value in row {
        match value {
            Value::Null => writer.write_col(None::<String>)?,
            Value::Integer(number) => writer.write_col(number)?,
            Value::Unsigned(number) => writer.write_col(number)?,
            Value::Text(text) => writer.write_col(text)?,
        }
    }
    writer.end_row().await
}
