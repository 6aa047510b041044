# Runs the members of a replica set, none of which outlives this shell; one that is killed starts again.
# A transaction whose process has died is ended after 15 s, and not after a minute: tests kill many.
# Arguments: mongod, the folder of the data, the first port, how many members.
member='while setpriv --pdeathsig KILL "$0" --port "$2" --dbpath "$1/$2" --bind_ip 127.0.0.1 --replSet pillarbox \
        --oplogSize 64 --wiredTigerCacheSizeGB 0.25 --nounixsocket --quiet --wiredTigerEngineConfigString "log=(file_max=8MB,prealloc=false)" \
        --setParameter enableTestCommands=1 --setParameter transactionLifetimeLimitSeconds=15 \
        --setParameter diagnosticDataCollectionEnabled=false; [ $? = 137 ]; do :; done
    kill -TERM "$3"'
members=
# Whoever ends it has no use for the data.
trap 'kill -KILL $members; exit' TERM INT
place=0
while [ "$place" -lt "$4" ]; do
    port=$(($3 + place))
    mkdir -p "$2/$port"
    setpriv --pdeathsig KILL /bin/sh -c "$member" "$1" "$2" "$port" $$ &
    members="$members $!"
    place=$((place + 1))
done
wait
