# Runs the members of a replica set, which end with this shell; a killed member is restarted.
# Transactions of dead clients are aborted after 15 s instead of a minute, because tests kill many.
# Arguments: mongod, the folder of the data, the first port, the number of members.
member='while setpriv --pdeathsig KILL "$0" --port "$2" --dbpath "$1/$2" --bind_ip 127.0.0.1 --replSet pillarbox \
        --oplogSize 64 --wiredTigerCacheSizeGB 0.25 --nounixsocket --quiet --wiredTigerEngineConfigString "log=(file_max=8MB,prealloc=false)" \
        --setParameter enableTestCommands=1 --setParameter transactionLifetimeLimitSeconds=15 \
        --setParameter diagnosticDataCollectionEnabled=false; [ $? = 137 ]; do :; done
    kill -TERM "$3"'
members=
# Killing is safe: nobody needs the data after the end.
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
