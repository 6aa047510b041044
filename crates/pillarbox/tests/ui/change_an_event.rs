//! Changing an event after it was built.

use pillarbox::Event;

fn main() {
    let event = Event::text("t", "{}").build().unwrap();
    event.headers().insert("k".to_owned(), "v".to_owned());
}
