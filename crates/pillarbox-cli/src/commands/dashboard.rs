//! `dashboard`: serves the admin API for a database, without a relay.

use clap::Args;
use pillarbox_admin::{AdminApi, AdminServer, TableSources};
use pillarbox_relay::config::{AdminConfig, Input};
use pillarbox_terminal::error::{CommandError, CommandResult};
use pillarbox_terminal::interrupts::Interrupts;

use super::Session;
use super::relay::{AdminKeys, Flags, misconfigured};
use crate::environment::relay_variables;

/// The name of the one source.
const SOURCE: &str = "default";

const AFTER_HELP: &str = "\
Examples:
  pillarbox dashboard --url postgres://me@localhost/shop
  pillarbox dashboard --url sqlite:orders.db --admin 127.0.0.1:7081 --admin-token-file /run/secrets/admin-token

It delivers nothing and needs no relay. Without --admin-token it changes nothing.
`curl http://127.0.0.1:7080/api/v1/openapi.json` describes the API. Ctrl-C and SIGTERM end it.";

/// Arguments of `dashboard`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Dashboard {
    #[command(flatten)]
    flags: Flags<AdminKeys>,
}

impl Dashboard {
    pub(crate) async fn run(self, session: &Session) -> CommandResult {
        let variables = Flags::<AdminKeys>::only(relay_variables());
        let input = Input { file: None, variables, flags: self.flags.given() };
        let (config, warnings) = AdminConfig::load(&input).map_err(misconfigured)?;
        warnings.iter().for_each(|warning| session.output.note(&format!("warning: {warning}")));
        let mut interrupts = Interrupts::listen()?;
        let tables = tokio::select! {
            tables = session.tables() => tables?,
            () = interrupts.come() => return Ok(()),
        };
        for (_, table) in &tables {
            table.admin().check().await?;
        }
        let sources = TableSources::one(SOURCE, tables);
        let AdminConfig { address, tokens } = config;
        let started = AdminServer::start(address, AdminApi::new(sources).tokens(tokens)).await;
        let server = started.map_err(|error| {
            CommandError::failed(format!("can't listen on {address}: {error}"))
                .hint("--admin 127.0.0.1:7081 uses another port")
        })?;
        session.output.note(&format!("dashboard: http://{}", server.address()));
        interrupts.come().await;
        server.close().await;
        Ok(())
    }
}
