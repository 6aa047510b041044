# Runs FerretDB and its PostgreSQL; both end with this shell.
# Arguments: the folder of PostgreSQL's programs, FerretDB, the folder of the data, the port.
setpriv --pdeathsig QUIT "$1/postgres" -D "$3/tables" \
    -c listen_addresses= -c unix_socket_directories="$3" \
    -c shared_preload_libraries=pg_cron,pg_documentdb_core,pg_documentdb \
    -c cron.database_name=postgres -c cron.host="$3" -c cron.log_run=off -c cron.log_statement=off \
    -c documentdb.localhost_connection_string="host=$3" \
    -c max_connections=200 -c shared_buffers=256MB -c log_min_messages=warning &
tables=$!
setpriv --pdeathsig KILL "$2" --listen-addr="127.0.0.1:$4" --listen-unix="$3/wire" --state-dir="$3" \
    --postgresql-url="postgres:///postgres?host=$3&user=postgres&pool_max_conns=100" \
    --no-auth --telemetry=disable --debug-addr=- --log-level=WARN &
wire=$!
# Killing is safe: FerretDB has nothing to save, and the tables are deleted.
trap 'kill -KILL $wire; kill -QUIT $tables' TERM INT
wait $wire
kill -QUIT $tables 2> /dev/null
wait
