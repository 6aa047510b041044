//! Kafka: the sink against a producer with the same guarantees that sends the payloads and awaits their answers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pillarbox::port::Delivery;
use pillarbox_sinks::{SinkOptions, open};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::producer::{FutureProducer, FutureRecord};

use super::{GOAL, WORKERS, batches, deliver, per_second, unique};
use crate::figure::{Figure, Goal, Samples};
use crate::postgres::Sizes;

const PARTITIONS: i32 = 3;

/// Measures the part on the servers of the list.
pub async fn run(part: &str, servers: &str, sizes: &Sizes) -> anyhow::Result<Vec<Figure>> {
    anyhow::ensure!(part == "sink", "unknown part {part}");
    let (mut ours, mut bare) = (WORKERS.map(|_| Samples::default()), Samples::default());
    let producer: FutureProducer = config(servers).set("enable.idempotence", "true").create()?;
    let sink_topic = make_topic(servers).await?;
    let sink = open(&format!("kafka://{servers}/{sink_topic}"), &SinkOptions::default())?;
    let bare_topic = make_topic(servers).await?;
    // The first round finds servers and partitions on both sides, and is not counted.
    for round in 0..=sizes.rounds {
        let events = Arc::new(batches(sizes.backlog)?);
        let bare_rate = per_second(&events, produce(&producer, &bare_topic, &events).await?);
        if round > 0 {
            bare.push(bare_rate);
        }
        for (ours, at_once) in ours.iter_mut().zip(WORKERS) {
            let rate = per_second(&events, deliver(sink.clone(), &events, at_once).await?);
            if round > 0 {
                ours.push(rate);
            }
        }
    }
    let figure = |(ours, at_once): (&Samples, usize)| {
        let what =
            format!("{} events to Kafka, {at_once} groups at once, against a bare producer", sizes.backlog);
        Figure::ratio(what, "/s", ours, &bare, Goal::AtLeast(GOAL))
    };
    Ok(ours.iter().zip(WORKERS).map(figure).collect())
}

fn config(servers: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", servers);
    config
}

async fn make_topic(servers: &str) -> anyhow::Result<String> {
    let admin: AdminClient<DefaultClientContext> = config(servers).create()?;
    let name = unique("bench")?;
    let topic = NewTopic::new(&name, PARTITIONS, TopicReplication::Fixed(1));
    let made = admin.create_topics(&[topic], &AdminOptions::new()).await?;
    for topic in made {
        topic.map_err(|(name, code)| anyhow::anyhow!("{name}: {code}"))?;
    }
    Ok(name)
}

async fn produce(
    producer: &FutureProducer,
    topic: &str,
    batches: &[Vec<Delivery>],
) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    let mut waiting = Vec::with_capacity(batches.len());
    for delivery in batches.iter().flatten() {
        let event = &delivery.event;
        let key = event.message_group().unwrap_or_default();
        let record = FutureRecord::to(topic).key(key).payload(event.payload().as_bytes());
        waiting.push(producer.send_result(record).map_err(|(error, _)| error)?);
    }
    for answer in waiting {
        answer.await?.map_err(|(error, _)| error)?;
    }
    Ok(begun.elapsed())
}
