package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"rollcall/reconcile"
	"rollcall/sql/sqltest"
)

const (
	full     = "no space left on device"
	readOnly = "read-only file system"
)

// onDisk is a deployment whose ledger lies on a small disk.
type onDisk struct {
	*operator
	disk *sqltest.Disk
	file string // the ledger
}

// newOnDisk makes a deployment with small chunks, and with leases that are soon
// over: on a full disk none can be given up. Its witness lies elsewhere.
func newOnDisk(t *testing.T, disk *sqltest.Disk) *onDisk {
	t.Helper()
	o := &onDisk{newOperator(t, "sqlite"), disk, filepath.Join(disk.Path, "rollcall.db")}
	o.edit("rollcall.yaml", "database: rollcall.db", "database: "+o.file, "keyring:", "witness: second.witness\nkeyring:",
		"jobs:\n", "lease: 50ms\nchunk: 50\njobs:\n  max_items: 100\n")
	o.must(exitDone, "migrate")
	o.must(exitDone, "policy", "approve", "patient-community", "--reason", "a test")
	return o
}

// reports is a file of n reports of about a page each.
func (o *onDisk) reports(n int) string {
	return o.operator.file("reports.jsonl", strings.ReplaceAll(markedReports(n), "an idiot", "an idiot, and "+strings.Repeat("so on, ", 500)))
}

// refuses holds that a command fails, says why and where, and nothing that is
// beside the point.
func (o *operator) refuses(why, where string, args ...string) ended {
	o.t.Helper()
	p := o.process(nil, append([]string{"--log-level", "trace"}, args...)...)
	o.wantRefusal(p, why, where)
	return p
}

func (o *operator) wantRefusal(p ended, why, where string) {
	o.t.Helper()
	if p.code != exitFailed {
		o.t.Errorf("exit code %d, want %d", p.code, exitFailed)
	}
	for _, words := range []string{why, where} {
		if !strings.Contains(p.err, words) {
			o.t.Errorf("%q is not in what it says", words)
		}
	}
	for _, words := range []string{"goroutine ", "left to it", marker} {
		if strings.Contains(p.out+p.err, words) {
			o.t.Errorf("%q is in what it says", words)
		}
	}
	if o.t.Failed() {
		o.t.Fatalf("it says:\n%s%s", p.out, p.err)
	}
}

// acknowledged is how many reports an intake says that it has taken in, or that
// it has had before.
func (o *onDisk) acknowledged(p ended) (n int64) {
	o.t.Helper()
	var tallies []fileTally
	if p.out != "" {
		if err := json.Unmarshal([]byte(p.out), &tallies); err != nil {
			o.t.Fatalf("%v: %s", err, p.out)
		}
	}
	for _, t := range tallies {
		n += t.Accepted + t.Unchanged
	}
	return n
}

// held is how many reports the ledger holds.
func (o *operator) held() int64 {
	o.t.Helper()
	return asJSON[reconcile.Overview](o, exitAny, "status").Reports
}

// wantRest holds that the same commands, on a disk that can be written again,
// make everything whole.
func (o *onDisk) wantRest(reports string, n int) {
	o.t.Helper()
	o.must(exitDone, "intake", reports)
	o.must(exitDone, "run", "--until-idle")
	o.wantWhole(n)
	wantSoundFile(o.t, o.file)
}

// almostFull is what is left of a disk that has room for less and less: for no
// connection, for no lease, for no chunk.
var almostFull = []int64{0, 36 << 10, 44 << 10, 60 << 10, 100 << 10}

// F48: nothing is taken in for done on a full disk.
func TestF48_FullDiskBeforeIntake(t *testing.T) {
	sqltest.WithDisks(t, func(t *testing.T) {
		o := newOnDisk(t, sqltest.NewDisk(t, 16<<20))
		file := o.reports(60)
		for _, left := range almostFull {
			o.disk.Fill(left)
			p := o.refuses(full, o.file, "intake", "--json", file)
			o.disk.Free()
			if acked, held := o.acknowledged(p), o.held(); acked > held {
				t.Errorf("%d bytes are left: %d reports are acknowledged, the ledger holds %d", left, acked, held)
			}
		}
		o.disk.Fill(0)
		for _, args := range [][]string{{"serve"}, {"check"}, {"status"}, {"pause", "--reason", "a test"}, {"migrate"}} {
			o.refuses(full, o.file, args...)
		}
		o.disk.Free()
		o.wantRest(file, 60)
	})
}

// F48: the disk fills up in the middle of an intake. What was acknowledged by
// then is in the ledger.
func TestF48_DiskFillsDuringIntake(t *testing.T) {
	sqltest.WithDisks(t, func(t *testing.T) {
		const n = 1200
		o := newOnDisk(t, sqltest.NewDisk(t, 32<<20))
		file := o.reports(n)
		before := int64(0)
		for _, left := range []int64{1 << 20, 2 << 20, 3 << 20} {
			o.disk.Fill(left)
			p := o.refuses(full, o.file, "intake", "--json", file)
			o.disk.Free()
			acked, held := o.acknowledged(p), o.held()
			if acked > held || acked <= before {
				t.Errorf("%d bytes are left: %d reports are acknowledged after %d, the ledger holds %d", left, acked, before, held)
			}
			before = held
		}
		o.wantRest(file, n)
	})
}

// F48: a pass on a full disk fails, whatever it was about to write. It neither
// puts its rows off as if something was wrong with them, nor takes a lease that
// cannot be noted for another process's, nor waits without an end.
func TestF48_FullDiskUnderThePasses(t *testing.T) {
	sqltest.WithDisks(t, func(t *testing.T) {
		const n = 250
		o := newOnDisk(t, sqltest.NewDisk(t, 32<<20))
		file := o.reports(n)
		o.must(exitDone, "intake", file)
		refused := 0
		for _, pass := range reconcile.Passes() {
			for _, left := range []int64{0, 36 << 10, 60 << 10} {
				o.disk.Fill(left)
				for _, args := range [][]string{{"run", string(pass), "--json"}, {"run", "--until-idle"}} {
					if args[1] == "--until-idle" && pass != reconcile.PassConsume {
						continue // once is enough
					}
					if p := o.process(nil, args...); p.code != exitDone || strings.Contains(p.err, "left to it") || o.putOff(p) > 0 {
						o.wantRefusal(p, full, o.file)
						refused++
					}
				}
			}
			o.disk.Free()
			o.inTime(pass)
		}
		if refused < 2*len(reconcile.Passes()) {
			t.Errorf("only %d commands met a full disk", refused)
		}
		o.wantRest(file, n)
	})
}

// putOff is how many rows a run says that it put off.
func (o *operator) putOff(p ended) (n int64) {
	o.t.Helper()
	var tallies map[reconcile.PassName]reconcile.Tally
	if err := json.Unmarshal([]byte(p.out), &tallies); err == nil { // else it printed a table, or nothing
		for _, t := range tallies {
			n += t.Failed
		}
	}
	return n
}

// inTime runs a pass until it has nothing left to do now.
func (o *operator) inTime(pass reconcile.PassName) {
	o.t.Helper()
	until(o.t, "the end of "+string(pass), func() bool {
		o.must(exitDone, "run", string(pass))
		w := asJSON[reconcile.Workload](o, exitDone, "run", "--dry-run")
		return map[reconcile.PassName]bool{
			reconcile.PassCollect: w.Pending == 0, reconcile.PassSubmit: w.Ready == 0, reconcile.PassPoll: w.Submitted == 0,
			reconcile.PassConsume: w.Ended == 0, reconcile.PassApply: w.Extracted == 0,
			reconcile.PassCall: w.CallsDue == 0, reconcile.PassResolve: true, reconcile.PassSweep: true, reconcile.PassCheck: true,
		}[pass]
	})
}

// F48: a daemon lives through a full disk, says so without an end of lines, and
// goes on by itself.
func TestF48_DaemonLivesThroughAFullDisk(t *testing.T) {
	sqltest.WithDisks(t, func(t *testing.T) {
		const n = 100 // fewer than make SQLite begin its log anew, in room that it has
		o := newOnDisk(t, sqltest.NewDisk(t, 32<<20))
		o.serveQuickly()
		s := o.serve()
		o.must(exitDone, "intake", o.reports(n))
		o.disk.Fill(0)
		s.wait("the schedule could not be run", full, o.file)
		ready(t, s.address(), "unwritable", func(r readiness) bool { return !r.Ready && r.Database == "unwritable" })
		o.disk.Free()
		s.wait("the schedule, which could not be run, can be again")
		o.recorded(n)
		s.stop()
		if lines := strings.Count(s.all(), "the schedule could not be run"); lines > 12 {
			t.Errorf("it says %d times that a schedule could not be run", lines)
		}
		o.printed.WriteString(s.all())
		o.wantWhole(n)
		wantSoundFile(t, o.file)
	})
}

// F47: without a witness that can be renewed nothing is sent, and reports are
// taken in all the same.
func TestF47_WitnessOnAFullDisk(t *testing.T) {
	sqltest.WithDisks(t, func(t *testing.T) {
		for name, tc := range map[string]struct {
			why        string
			spoil, end func(*sqltest.Disk)
		}{
			"full":      {full, func(d *sqltest.Disk) { d.Fill(0) }, (*sqltest.Disk).Free},
			"read-only": {readOnly, (*sqltest.Disk).ReadOnly, (*sqltest.Disk).Writable},
		} {
			t.Run(name, func(t *testing.T) {
				o, disk, path := newWitnessOnDisk(t)
				o.must(exitDone, "run") // the witness is there
				tc.spoil(disk)
				o.must(exitDone, "intake", o.file("reports.jsonl", markedReports(30)))
				for _, args := range [][]string{{"run"}, {"run", "--until-idle"}, {"run", "submit"}, {"serve"}} {
					o.refuses(tc.why, path, args...)
				}
				wantFound(t, o.doctor(exitDecision), "witness", healthBad, tc.why)
				o.wantNothingSent()
				tc.end(disk)
				o.must(exitDone, "run", "--until-idle")
				o.wantWhole(30)
			})
		}
	})
}

func newWitnessOnDisk(t *testing.T) (o *operator, disk *sqltest.Disk, path string) {
	t.Helper()
	disk = sqltest.NewDisk(t, 1<<20)
	path = filepath.Join(disk.Path, "rollcall.witness")
	o = newOperator(t, "sqlite")
	o.edit("rollcall.yaml", "keyring:", "witness: "+path+"\nkeyring:")
	return o, disk, path
}

func (o *operator) wantNothingSent() {
	o.t.Helper()
	if b, err := o.box.Books(); err != nil || len(b.Jobs)+b.Files > 0 {
		o.t.Errorf("%d jobs and %d files went out, %v", len(b.Jobs), b.Files, err)
	}
}

// F47: a witness that fails under a running daemon stops what it would send, and
// is told of.
func TestF47_WitnessDiskFillsUnderTheDaemon(t *testing.T) {
	sqltest.WithDisks(t, func(t *testing.T) {
		o, disk, path := newWitnessOnDisk(t)
		o.serveQuickly()
		s := o.serve()
		ready(t, s.address(), "ready", func(r readiness) bool { return r.Ready && r.Dispatch != nil })
		disk.Fill(0)
		o.must(exitDone, "intake", o.file("reports.jsonl", markedReports(30)))
		ready(t, s.address(), "a failing schedule", func(r readiness) bool { return r.schedule("dispatch").State == "failing" })
		o.wantNothingSent()
		s.wait(path, full)
		disk.Free()
		o.recorded(30)
		s.stop()
		o.printed.WriteString(s.all())
		o.wantWhole(30)
	})
}

// A file system that is read-only is said to be so by every command: even to read,
// SQLite's write-ahead log needs a file beside the ledger.
func TestF48_ReadOnlyBeforeACommand(t *testing.T) {
	sqltest.WithDisks(t, func(t *testing.T) {
		o := newOnDisk(t, sqltest.NewDisk(t, 16<<20))
		file := o.reports(60)
		o.must(exitDone, "intake", file)
		o.disk.ReadOnly()
		for _, args := range [][]string{{"intake", file}, {"run"}, {"run", "submit"}, {"run", "--until-idle"}, {"check"}, {"serve"},
			{"pause", "--reason", "a test"}, {"route", "m-3", "--reason", "a test"}, {"status"}} {
			o.refuses(readOnly, o.file, args...)
		}
		o.disk.Writable()
		o.wantRest(file, 60)
	})
}

// The file system becomes read-only under an intake, as one does whose device
// fails. What was acknowledged by then is in the ledger.
func TestF48_DiskFailsUnderIntake(t *testing.T) {
	sqltest.WithDisks(t, func(t *testing.T) {
		const n = 200
		o := newOnDisk(t, sqltest.NewBlockDisk(t, 32<<20))
		file := o.reports(n)
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		half := strings.Index(string(raw), fmt.Sprintf(`"m-%d"`, n/2))
		in, stdin, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		wait := o.begin(in, nil, "intake", "--json", "-")
		_ = in.Close() // the process has its own
		if _, err := stdin.Write(raw[:half]); err != nil {
			t.Fatal(err)
		}
		until(t, "a first chunk", func() bool { return o.held() > 0 })
		o.disk.Fail()
		_, _ = stdin.Write(raw[half:]) // it need not read all of it
		_ = stdin.Close()
		p := wait()
		o.wantRefusal(p, readOnly, o.file)
		o.disk.Mend()
		if acked, held := o.acknowledged(p), o.held(); acked == 0 || acked > held {
			t.Errorf("%d reports are acknowledged, the ledger holds %d", acked, held)
		}
		o.wantRest(file, n)
	})
}

// The same under a daemon: it lives on, sends nothing, and stops in order.
func TestF48_DiskFailsUnderTheDaemon(t *testing.T) {
	sqltest.WithDisks(t, func(t *testing.T) {
		const n = 100
		o := newOnDisk(t, sqltest.NewBlockDisk(t, 32<<20))
		o.serveQuickly()
		file := o.reports(n)
		s := o.serve()
		o.must(exitDone, "intake", file)
		o.disk.Fail()
		s.wait("the schedule could not be run", readOnly, o.file)
		ready(t, s.address(), "unwritable", func(r readiness) bool { return !r.Ready && r.Database == "unwritable" })
		s.signal(syscall.SIGTERM)
		s.end()
		o.disk.Mend()
		s = o.serve()
		o.recorded(n)
		s.stop()
		o.wantRest(file, n)
	})
}

// F48: the same over PostgreSQL, whose server is killed into the bargain.
func TestF48_PostgresOnAFullDisk(t *testing.T) {
	sqltest.WithDisks(t, func(t *testing.T) {
		const n = 600
		cluster, disk := sqltest.NewClusterOn(t, 160<<20, "max_wal_size=32MB", "min_wal_size=32MB", "autovacuum=off")
		o := &onDisk{newOperator(t, "sqlite"), disk, ""}
		o.operator.file("database.url", cluster.URL()+"\n")
		o.edit("rollcall.yaml", "database: rollcall.db", "database: {url: {file: database.url}}", "keyring:", "witness: second.witness\nkeyring:",
			"jobs:\n", "lease: 50ms\nchunk: 50\njobs:\n  max_items: 500\n")
		o.must(exitDone, "migrate")
		o.must(exitDone, "policy", "approve", "patient-community", "--reason", "a test")
		file := o.reports(n)
		refuse := func(args ...string) ended {
			p := o.refuses(full, "postgres://"+cluster.HostPort(), args...)
			disk.Free()
			cluster.Crash()
			cluster.Start()
			return p
		}
		disk.Fill(1 << 20)
		p := refuse("intake", "--json", file)
		if acked, held := o.acknowledged(p), o.held(); acked == 0 || acked > held {
			t.Errorf("%d reports are acknowledged, the ledger holds %d", acked, held)
		}
		o.must(exitDone, "intake", file)
		disk.Fill(100 << 10)
		refuse("run", "--until-idle")
		o.must(exitDone, "run", "--until-idle")
		o.wantWhole(n)
	})
}
