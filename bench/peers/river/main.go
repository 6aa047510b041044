// River in its fastest settings; ../README.md has the protocol.
package main

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const page = 5_000

type jobArgs struct {
	Filler string `json:"filler"`
}

func (jobArgs) Kind() string { return "job" }

type worker struct {
	river.WorkerDefaults[jobArgs]
	handled *handled
}

func (w *worker) Work(context.Context, *river.Job[jobArgs]) error {
	w.handled.job()
	return nil
}

type peer struct {
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
	args   jobArgs
}

func open(ctx context.Context, url, filler string, handled *handled) (*peer, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 60
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &worker{handled: handled})
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		// The cooldown also limits how often an insert sends NOTIFY.
		FetchCooldown:     2 * time.Millisecond,
		FetchPollInterval: 20 * time.Millisecond,
		Logger:            slog.New(slog.NewTextHandler(io.Discard, nil)),
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 5_000}},
		Workers:           workers,
	})
	return &peer{pool: pool, client: client, args: jobArgs{Filler: filler}}, err
}

func (p *peer) migrate(ctx context.Context) error {
	migrator, err := rivermigrate.New(riverpgxv5.New(p.pool), nil)
	if err != nil {
		return err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

func (p *peer) fill(ctx context.Context, jobs int) error {
	for first := 0; first < jobs; first += page {
		params := make([]river.InsertManyParams, min(page, jobs-first))
		for number := range params {
			params[number].Args = p.args
		}
		if _, err := p.client.InsertManyFast(ctx, params); err != nil {
			return err
		}
	}
	return nil
}

func (p *peer) start(ctx context.Context) error {
	return p.client.Start(ctx)
}

func (p *peer) enqueue(ctx context.Context, tx pgx.Tx) error {
	_, err := p.client.InsertTx(ctx, tx, p.args, nil)
	return err
}
