//! What adapters say, line by line.

use std::str::FromStr;
use std::time::Duration;

/// One line of an adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    /// Connected, and waiting for `go`.
    Ready,
    /// The handler has been called for every job of the backlog.
    Handled,
    /// From the answer to a commit to the call of the handler.
    Latency(Duration),
    /// The writers have stopped.
    Committed { transactions: u64, took: Duration },
    /// There are no more latencies.
    Done,
}

impl FromStr for Said {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> anyhow::Result<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        Ok(match words[..] {
            ["ready"] => Self::Ready,
            ["handled"] => Self::Handled,
            ["done"] => Self::Done,
            ["latency", micros] => Self::Latency(Duration::from_micros(micros.parse()?)),
            ["committed", transactions, micros] => Self::Committed {
                transactions: transactions.parse()?,
                took: Duration::from_micros(micros.parse()?),
            },
            _ => anyhow::bail!("not a line of the protocol: {line}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_protocol_is_understood() {
        let said = |line: &str| line.parse::<Said>().expect(line);
        assert_eq!([said("ready"), said("handled"), said("done")], [Said::Ready, Said::Handled, Said::Done]);
        assert_eq!(said("latency 730"), Said::Latency(Duration::from_micros(730)));
        let committed = Said::Committed { transactions: 12, took: Duration::from_secs(2) };
        assert_eq!(said("committed 12 2000000"), committed);
    }

    #[test]
    fn anything_else_is_refused() {
        for line in ["", "Ready", "latency", "latency fast", "latency -1", "committed 1", "ready now"] {
            assert!(line.parse::<Said>().is_err(), "{line}");
        }
    }
}
