# Runs RabbitMQ and its name server (epmd); both end with this shell.
# Arguments: the folder of RabbitMQ's scripts, the folder of the data, the port; the next two ports are used too.
# Erlang's programs may be beside the scripts.
export PATH="$1:$PATH" LC_ALL=C
export HOME="$2" ERL_EPMD_PORT=$(($3 + 1)) ERL_EPMD_ADDRESS=127.0.0.1
export RABBITMQ_NODENAME="pillarbox-$3@localhost" RABBITMQ_DIST_PORT=$(($3 + 2))
export RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_NODE_PORT="$3"
export RABBITMQ_MNESIA_BASE="$2/mnesia" RABBITMQ_LOG_BASE="$2/log" RABBITMQ_LOGS=-
export RABBITMQ_PID_FILE="$2/pid" RABBITMQ_ENABLED_PLUGINS_FILE="$2/plugins"
export RABBITMQ_CONF_ENV_FILE="$2/no-settings" RABBITMQ_CONFIG_FILE="$2/no-settings"
# Makes the script `rabbitmq-server` exec the server, so that `$!` below is the server's process id.
export RUNNING_UNDER_SYSTEMD=true
cd "$2" || exit 1
setpriv --pdeathsig KILL epmd -port "$ERL_EPMD_PORT" &
names=$!
setpriv --pdeathsig KILL "$1/rabbitmq-server" &
server=$!
trap 'kill -KILL $server $names' TERM INT
wait $server
kill -KILL $names 2> /dev/null
wait
