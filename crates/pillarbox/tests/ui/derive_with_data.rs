//! A type that carries data is no name.

use pillarbox::EventType;

#[derive(EventType)]
enum OrderEvent {
    Placed(u64),
    #[event_type(rename = "")]
    Gone,
}

fn main() {}
