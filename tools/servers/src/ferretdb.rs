//! FerretDB: MongoDB's wire protocol on PostgreSQL with DocumentDB, without transactions or change streams.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::debian::{self, Suite, Unpacked};
use super::{Necessity, Server, Site, cache, golang, port, postgres};
use crate::process;

const NAME: &str = "ferretdb";
static UNPACKED: Unpacked = Unpacked {
    suite: Suite::Unstable,
    package: "postgresql-18-documentdb",
    // Creating the extension reads the data of map projections.
    parts: &["postgresql-18", "proj-data"],
    programs: &["usr/lib/postgresql/18/bin/initdb", "usr/lib/postgresql/18/bin/postgres"],
};
const PROGRAMS: &str = "usr/lib/postgresql/18/bin";
const LIBRARIES: &str = "usr/lib/postgresql/18/lib";
const EXTENSIONS: &str = "usr/share/postgresql/18/extension";
const FERRETDB: &str = "bin/ferretdb";
const MODULE: &str = "github.com/FerretDB/FerretDB/v2/cmd/ferretdb@v2.7.0";
const VERSION: &str = "v2.7.0";
const RUN: &str = include_str!("ferretdb/run.sh");
const PRELOAD: &str = "shared_preload_libraries=pg_cron,pg_documentdb_core,pg_documentdb";

/// FerretDB with its own PostgreSQL.
#[derive(Debug)]
pub(super) struct FerretDb;

impl Server for FerretDb {
    fn name(&self) -> &'static str {
        NAME
    }

    fn variable(&self) -> &'static str {
        "PILLARBOX_TEST_FERRETDB_URL"
    }

    fn need(&self) -> Necessity {
        Necessity::May
    }

    fn preferred_port(&self) -> u16 {
        15_428
    }

    fn stop_signal(&self) -> &'static str {
        "TERM"
    }

    fn find(&self) -> Option<PathBuf> {
        cache::cached(&folder())
    }

    fn install(&self) -> Result<PathBuf, String> {
        let needs_setpriv = || "its two processes are held together by `setpriv` of util-linux".to_owned();
        let held = if process::is_there("setpriv") { Ok(()) } else { Err(needs_setpriv()) };
        held.and_then(|()| cache::keep(&folder(), make))
            .map_err(|why| format!("{why}\n    set {} to use one of yours", self.variable()))
    }

    fn preparation(&self, site: &Site) -> Vec<Command> {
        let tables = site.data.join("tables");
        let mut initdb = Command::new(site.home.join(PROGRAMS).join("initdb"));
        initdb.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]);
        initdb.arg("-D").arg(&tables);
        let mut extend = Command::new("sh");
        extend.args(["-c", "echo 'CREATE EXTENSION documentdb CASCADE' | \"$0\" \"$@\""]);
        extend.arg(site.home.join(PROGRAMS).join("postgres")).args(["--single", "-j", "-D"]).arg(&tables);
        extend.args(["-c", PRELOAD, "-c", "cron.database_name=postgres", "-c", "fsync=off", "postgres"]);
        vec![initdb, extend]
    }

    fn command(&self, site: &Site, port: u16) -> Command {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", RUN, NAME]).arg(site.home.join(PROGRAMS)).arg(site.home.join(FERRETDB));
        shell.arg(&site.data).arg(port.to_string());
        shell
    }

    /// The program behind the shell script that is started: this is the file that the servers' user must be
    /// able to read.
    fn program(&self, site: &Site) -> PathBuf {
        site.home.join(FERRETDB)
    }

    fn is_ready(&self, site: &Site, port: u16) -> bool {
        // FerretDB creates its socket after binding the port, and exits if it can't bind.
        let has_port = site.data.join("wire").exists();
        postgres::is_ready_in(&site.data.join("tables")) && has_port && port::takes_connections(port)
    }

    fn url(&self, port: u16) -> String {
        format!("mongodb://127.0.0.1:{port}/pillarbox")
    }
}

/// Unpacks PostgreSQL, builds FerretDB, and checks that both work.
fn make(part: &Path) -> Result<PathBuf, String> {
    let bin = part.join("bin");
    fs::create_dir(&bin).map_err(|error| format!("{}: {error}", bin.display()))?;
    let home = UNPACKED.unpack(part)?;
    // Installing the package would create this file as a link.
    let extension = |name: &str| home.join(EXTENSIONS).join(name);
    fs::copy(extension("postgis-3.control"), extension("postgis.control"))
        .map_err(|error| format!("the control file of postgis: {error}"))?;
    debian::try_program(&home, UNPACKED.programs[1], &["-V"])?;
    for library in ["pg_documentdb", "pg_cron", "vector", "postgis-3"] {
        debian::try_library(&home, &format!("{LIBRARIES}/{library}.so"))?;
    }
    golang::build(&golang::get()?, MODULE, part, &bin)?;
    fs::rename(&bin, home.join("bin")).map_err(|error| format!("{}: {error}", bin.display()))?;
    debian::try_program(&home, FERRETDB, &["--version"])?;
    Ok(home)
}

fn folder() -> String {
    format!("ferretdb-{VERSION}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_and_what_is_kept_have_the_same_version() {
        assert!(MODULE.ends_with(&format!("@{VERSION}")));
        assert!(folder().ends_with(VERSION));
    }

    #[test]
    fn what_fills_the_tables_and_what_runs_them_load_the_same() {
        assert!(RUN.contains(PRELOAD));
    }
}
