# Replaces this shell with one Kafka node that is both broker and controller.
# Arguments: the folder of the libraries, the folder of the data, the port; the next port is used too.
cat > "$2/server.properties" << END
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$(($3 + 1))
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:$3,CONTROLLER://127.0.0.1:$(($3 + 1))
advertised.listeners=PLAINTEXT://127.0.0.1:$3
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$2/log
num.partitions=3
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
END
export LC_ALL=C
quick="-XX:-UsePerfData -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
log="-Dorg.slf4j.simpleLogger.defaultLogLevel=warn -Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info"
java $quick $log -cp "$1/*" kafka.tools.StorageTool format --ignore-formatted \
    --cluster-id pillarboxTestClusterId --config "$2/server.properties" || exit 1
exec java $quick $log -Xmx512m -cp "$1/*" kafka.Kafka "$2/server.properties"
