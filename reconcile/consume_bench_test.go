package reconcile_test

import (
	"context"
	"fmt"
	"hash"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"rollcall/batch"
	"rollcall/reconcile"
	"rollcall/reconcile/keyring"
	"rollcall/sql/sqltest"
)

// endlessFile serves a result file that is made while it is read, so that it
// is no part of the measured memory.
type endlessFile struct {
	resultFiles
	lines int
	line  func(i int) string
}

func (p *endlessFile) Download(context.Context, string) (io.ReadCloser, int64, error) {
	r, w := io.Pipe()
	go func() {
		for i := range p.lines {
			if _, err := io.WriteString(w, p.line(i)+"\n"); err != nil {
				return
			}
		}
		_ = w.Close()
	}()
	return r, -1, nil
}

// sendMany accepts n reports and sends them as one finished job.
func (x *resultTest) sendMany(n int) (sentJob, []string) {
	x.t.Helper()
	ctx, now := context.Background(), x.Clock.Now()
	const step = 2000
	body := strings.Repeat("Somebody wrote something about a medicine. ", 20) + "“buy now” " + resultMarker
	j := sentJob{"job1", "sub1", "batch_1"}
	works := make([]string, n)
	for at := 0; at < n; at += step {
		end := min(at+step, n)
		var ds []reconcile.Delivery
		for i := at; i < end; i++ {
			works[i] = x.work(i, 1)
			mac := x.Keys.MAC(keyring.Content, []byte(fmt.Sprint(i)))
			sealed, err := x.Keys.Encrypt([]byte(body), "text", x.report(i), mac)
			x.must(err)
			ds = append(ds, reconcile.Delivery{Identity: reconcile.Identity{Tenant: "acme", System: "forum", ExternalID: fmt.Sprint(i)},
				ReportID: x.report(i), Revision: 1, Rule: reconcile.RevisionConflict, ContentMAC: mac, MACKeyID: x.Keys.MACKeyID(),
				ContentBytes: int64(len(body)), Text: sealed, Policy: x.policy, WorkID: func(int64) string { return works[i] }})
		}
		_, err := x.AcceptReports(ctx, now, ds)
		x.must(err)
		_, err = x.AddItems(ctx, now, reconcile.PlanStep{JobID: j.id, Policy: x.policy, Had: int64(at), Works: works[at:end], Ready: end == n})
		x.must(err)
	}
	_, err := x.CommitIntent(ctx, now, reconcile.Intent{SubmissionID: j.submission, JobID: j.id, Account: x.provider.account,
		SendBy: now.Add(time.Minute), Manifest: func() hash.Hash { return x.Keys.NewMAC(keyring.Manifest) }})
	x.must(err)
	x.must(x.RecordAccepted(ctx, now, reconcile.Acceptance{SubmissionID: j.submission, ProviderJobID: j.providerID, NextPoll: now}))
	x.must(x.EndJob(ctx, now, reconcile.JobEnd{JobID: j.id, Phase: batch.PhaseEnded, Files: []batch.ResultFile{{Channel: batch.ChannelOutput, ID: "f"}}}))
	return j, works
}

// peakHeap watches the heap until it is stopped.
func peakHeap() (stop func() uint64) {
	var peak atomic.Uint64
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		for tick := time.NewTicker(5 * time.Millisecond); ; {
			select {
			case <-done:
				tick.Stop()
				return
			case <-tick.C:
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				peak.Store(max(peak.Load(), m.HeapAlloc))
			}
		}
	})
	return func() uint64 {
		close(done)
		watching.Wait()
		return peak.Load()
	}
}

// prepareMany is a ledger with a finished job of n answers.
func prepareMany(t testing.TB, database string, n int) *resultTest {
	t.Helper()
	x := newResultTest(t, sqltest.Open(t, database), nil)
	x.r.Settings.Chunk = reconcile.DefaultSettings().Chunk
	j, works := x.sendMany(n)
	x.r.Accounts = []batch.Provider{&endlessFile{resultFiles: *x.provider, lines: n, line: func(i int) string { return j.answered(works[i], "spam") }}}
	runtime.GC()
	return x
}

// resultRows are the tables that consume and apply fill, in the order of their references.
var resultRows = []string{"result_lines", "artifacts", "review_records", "processed_markers"}

// BenchmarkConsumeApply compares consume and apply of a job with the bare load
// of the rows that they make into the same tables: by COPY on PostgreSQL, by a
// prepared insert on SQLite, in transactions of the same size.
//
//	go test ./reconcile -run '^$' -bench ConsumeApply -benchtime 1x
func BenchmarkConsumeApply(b *testing.B) {
	const n = 50_000
	for _, database := range sqltest.Databases {
		b.Run(database, func(b *testing.B) {
			for b.Loop() {
				x := prepareMany(b, database, n)
				stop, began := peakHeap(), time.Now()
				if _, err := x.r.Consume(context.Background(), x.Clock.Now()); err != nil {
					b.Fatal(err)
				}
				consumed := time.Since(began)
				if got, err := x.r.Apply(context.Background(), x.Clock.Now()); err != nil || got.Moved != n {
					b.Fatal(got, err)
				}
				took, heap := time.Since(began), stop()
				bare := x.loadAgain(b, database == "postgres")
				b.ReportMetric(n/took.Seconds(), "lines/s")
				b.ReportMetric(n/consumed.Seconds(), "consumed/s")
				b.ReportMetric(n/bare.Seconds(), "bare-load/s")
				b.ReportMetric(took.Seconds()/bare.Seconds(), "x-bare-load")
				b.ReportMetric(float64(heap)/(1<<20), "peak-heap-MiB")
			}
		})
	}
}

// loadAgain reads the rows of resultRows, empties the tables, loads the rows
// again and says how long that took.
func (x *resultTest) loadAgain(b *testing.B, postgres bool) time.Duration {
	b.Helper()
	type table struct {
		columns []string
		rows    [][]any
	}
	tables := map[string]table{}
	for _, name := range resultRows {
		rows, err := x.db.Queryx("SELECT * FROM " + name)
		x.must(err)
		var t table
		t.columns, err = rows.Columns()
		x.must(err)
		types, err := rows.ColumnTypes()
		x.must(err)
		for rows.Next() {
			row, err := rows.SliceScan()
			x.must(err)
			for i := range row { // lib/pq gives text as bytes, which COPY would escape
				if raw, ok := row[i].([]byte); ok && types[i].DatabaseTypeName() == "TEXT" {
					row[i] = string(raw)
				}
			}
			t.rows = append(t.rows, row)
		}
		x.must(rows.Err())
		tables[name] = t
	}
	for i := range resultRows {
		x.exec("DELETE FROM " + resultRows[len(resultRows)-1-i])
	}
	db := x.db
	if !postgres { // as the store opens it
		db = sqlx.MustOpen("sqlite", x.Address+"?_pragma=foreign_keys(1)&_pragma=synchronous(FULL)&_pragma=secure_delete(1)&_pragma=journal_mode(WAL)&_txlock=immediate")
		defer db.Close()
	}
	began := time.Now()
	for _, name := range resultRows {
		t := tables[name]
		for at := 0; at < len(t.rows); at += x.r.Settings.Chunk {
			x.must(loadRows(db, postgres, name, t.columns, t.rows[at:min(at+x.r.Settings.Chunk, len(t.rows))]))
		}
	}
	return time.Since(began)
}

func loadRows(db *sqlx.DB, postgres bool, name string, columns []string, rows [][]any) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	query := fmt.Sprintf("INSERT INTO %s (%s) VALUES (?%s)", name, strings.Join(columns, ", "), strings.Repeat(", ?", len(columns)-1))
	if postgres {
		query = fmt.Sprintf("COPY %s (%s) FROM STDIN", name, strings.Join(columns, ", "))
	}
	stmt, err := tx.Prepare(query)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if _, err := stmt.Exec(row...); err != nil {
			return err
		}
	}
	if postgres {
		if _, err := stmt.Exec(); err != nil {
			return err
		}
	}
	if err := stmt.Close(); err != nil {
		return err
	}
	return tx.Commit()
}
