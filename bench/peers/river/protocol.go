package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	order         = "INSERT INTO orders (account_id, amount, note) VALUES ($1, $2, $3)"
	note          = "a note of some length, as orders have them"
	warm          = 5
	warmLatencies = 25
	rest          = 3 * time.Millisecond
)

// Counts the calls of the handler.
type handled struct {
	count  atomic.Int64
	wanted int64
	calls  chan time.Time
}

func (h *handled) job() {
	now := time.Now()
	if h.count.Add(1) == h.wanted {
		fmt.Println("handled")
	}
	select {
	case h.calls <- now:
	default:
	}
}

var input = bufio.NewScanner(os.Stdin)

func hear(word string) error {
	if !input.Scan() || input.Text() != word {
		return errors.New("expected " + word)
	}
	return nil
}

func number(place int) int {
	if place >= len(os.Args) {
		return 0
	}
	value, _ := strconv.Atoi(os.Args[place])
	return value
}

// One business transaction, with a job if the scenario has jobs.
func (p *peer) transact(ctx context.Context, account int, business, jobs bool) error {
	tx, err := p.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	if business {
		if _, err := tx.Exec(ctx, order, account, 1, note); err != nil {
			return err
		}
	}
	if jobs {
		if err := p.enqueue(ctx, pgx.Tx(tx)); err != nil {
			return err
		}
	}
	return tx.Commit(ctx)
}

func (p *peer) each(writers int, repeat func(writer int) error) error {
	var group sync.WaitGroup
	failures := make(chan error, writers)
	for writer := range writers {
		group.Go(func() { failures <- repeat(writer) })
	}
	group.Wait()
	close(failures)
	for err := range failures {
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *peer) write(ctx context.Context, writers, millis int, jobs bool) error {
	err := p.each(writers, func(writer int) error {
		for range warm {
			if err := p.transact(ctx, writer, true, jobs); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	var transactions atomic.Int64
	began := time.Now()
	end := began.Add(time.Duration(millis) * time.Millisecond)
	err = p.each(writers, func(writer int) error {
		for time.Now().Before(end) {
			if err := p.transact(ctx, writer, true, jobs); err != nil {
				return err
			}
			transactions.Add(1)
		}
		return nil
	})
	fmt.Printf("committed %d %d\n", transactions.Load(), time.Since(began).Microseconds())
	return err
}

func (p *peer) latencies(ctx context.Context, handled *handled, wanted int) error {
	for number := range wanted + warmLatencies {
		if err := p.transact(ctx, 0, false, true); err != nil {
			return err
		}
		committed := time.Now()
		called := <-handled.calls
		if number >= warmLatencies {
			fmt.Printf("latency %d\n", max(0, called.Sub(committed).Microseconds()))
		}
		time.Sleep(rest)
	}
	fmt.Println("done")
	return nil
}

func run(ctx context.Context) error {
	var payload struct{ Filler string }
	if err := json.Unmarshal([]byte(os.Getenv("PEER_PAYLOAD")), &payload); err != nil {
		return err
	}
	wanted, _ := strconv.ParseInt(os.Getenv("PEER_JOBS"), 10, 64)
	// Only the latency reads the calls, one at a time.
	handled := &handled{wanted: wanted, calls: make(chan time.Time, 1)}
	p, err := open(ctx, os.Getenv("PEER_URL"), payload.Filler, handled)
	if err != nil {
		return err
	}
	if len(os.Args) < 2 {
		return errors.New("no scenario")
	}
	scenario := os.Args[1]
	if scenario == "fill" || scenario == "latency" || scenario == "end-to-end" {
		if err := p.migrate(ctx); err != nil {
			return err
		}
	}
	if scenario == "fill" {
		return p.fill(ctx, number(2))
	}
	if err := p.pool.Ping(ctx); err != nil {
		return err
	}
	fmt.Println("ready")
	if err := hear("go"); err != nil {
		return err
	}
	if scenario != "business" {
		if err := p.start(ctx); err != nil {
			return err
		}
	}
	switch scenario {
	case "latency":
		err = p.latencies(ctx, handled, number(2))
	case "end-to-end", "business":
		err = p.write(ctx, number(2), number(3), scenario == "end-to-end")
	case "drain":
	default:
		err = errors.New("unknown scenario " + scenario)
	}
	if err != nil {
		return err
	}
	return hear("stop")
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
