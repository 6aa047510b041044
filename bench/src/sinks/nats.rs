//! NATS JetStream: the sink against a client that publishes the payloads and awaits their acknowledgements.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::jetstream::context::{Context, ContextBuilder};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream;
use bytes::Bytes;
use pillarbox::port::Delivery;
use pillarbox_sinks::{SinkOptions, open};

use super::{GOAL, WORKERS, batches, deliver, per_second, unique};
use crate::figure::{Figure, Goal, Samples};
use crate::postgres::Sizes;

/// As many as the sink lets wait.
const IN_FLIGHT: usize = 4_096;

/// Measures the part on the server of the URL.
pub async fn run(part: &str, url: &str, sizes: &Sizes) -> anyhow::Result<Vec<Figure>> {
    anyhow::ensure!(part == "sink", "unknown part {part}");
    let client = async_nats::connect(url).await?;
    let context = ContextBuilder::new().max_ack_inflight(IN_FLIGHT + 1).build(client);
    let (mut ours, mut bare) = (WORKERS.map(|_| Samples::default()), Samples::default());
    for _ in 0..sizes.rounds {
        let events = Arc::new(batches(sizes.backlog / 2)?);
        let stream = make_stream(&context).await?;
        bare.push(per_second(&events, publish(&context, &stream, &events).await?));
        context.delete_stream(&stream).await?;
        for (ours, at_once) in ours.iter_mut().zip(WORKERS) {
            let stream = make_stream(&context).await?;
            let sink = open(&format!("{url}/{stream}.{{type}}"), &SinkOptions::default())?;
            ours.push(per_second(&events, deliver(sink, &events, at_once).await?));
            context.delete_stream(&stream).await?;
        }
    }
    let figure = |(ours, at_once): (&Samples, usize)| {
        let what =
            format!("{} events to NATS, {at_once} groups at once, against a bare client", sizes.backlog / 2);
        Figure::ratio(what, "/s", ours, &bare, Goal::AtLeast(GOAL))
    };
    Ok(ours.iter().zip(WORKERS).map(figure).collect())
}

async fn make_stream(context: &Context) -> anyhow::Result<String> {
    let name = unique("bench")?;
    let subjects = vec![format!("{name}.>")];
    context.create_stream(stream::Config { name: name.clone(), subjects, ..Default::default() }).await?;
    Ok(name)
}

async fn publish(context: &Context, stream: &str, batches: &[Vec<Delivery>]) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    let subject = format!("{stream}.order.placed");
    let mut waiting = VecDeque::with_capacity(IN_FLIGHT);
    for delivery in batches.iter().flatten() {
        if waiting.len() == IN_FLIGHT
            && let Some(first) = waiting.pop_front()
        {
            async_nats::jetstream::context::PublishAckFuture::into_future(first).await?;
        }
        let payload = Bytes::copy_from_slice(delivery.event.payload().as_bytes());
        let message = PublishMessage::build().payload(payload).message_id(delivery.event.id().as_str());
        waiting.push_back(context.send_publish(subject.clone(), message).await?);
    }
    for acknowledgement in waiting {
        acknowledgement.await?;
    }
    Ok(begun.elapsed())
}
