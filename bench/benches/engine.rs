//! The engine under criterion, for comparing changes.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pillarbox_bench::engine::{self, PerTransaction};

const EVENTS: usize = 50_000;

fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("engine");
    group.throughput(Throughput::Elements(EVENTS as u64)).sample_size(10);
    for per in [1, 10, 100] {
        group.bench_function(format!("{per} events a transaction"), |b| {
            b.iter_custom(|rounds| {
                (0..rounds).filter_map(|_| engine::run(EVENTS, PerTransaction(per)).ok()).sum()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
