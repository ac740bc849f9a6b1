//go:build crashpoint

package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"rollcall/batch/sandbox"
	"rollcall/reconcile"
	"rollcall/reconcile/crashpoint"
	"rollcall/sql/sqltest"
)

// chaos is a deployment whose processes are killed. All but the feeder belongs
// to the test's own goroutine.
type chaos struct {
	*operator
	size    chaosSize
	rand    *rand.Rand
	began   time.Time
	cluster *sqltest.Cluster // nil on SQLite
	outages atomic.Int64     // odd while PostgreSQL is down
	daemons []*daemon
	points  []string // that no daemon is armed with, and that were not hit
	queue   chan intakeRun
	feeder  feeder
	log     chaosLog

	slices    int   // into how many the reports are cut
	given     int   // reports in slices so far
	files     int   // slices so far
	revisions []int // by report
	looked    time.Time
}

// chaosLog is what happened.
type chaosLog struct {
	wall, drained      time.Duration
	kills, lostStarts  int // of daemons, at random; and starts that the stopped database refused
	hits               []string
	outages            int
	intakeKills, again atomic.Int64 // and intakes that the stopped database refused
	sandbox            string       // what its books say
}

// daemon is one life of a daemon.
type daemon struct {
	*serving
	point   string // with which hit of it it ends itself; "" for none
	killed  bool   // by the test
	outages int64  // when it began
	began   time.Time
}

func (d *daemon) pointName() string {
	name, _, _ := strings.Cut(d.point, ":")
	return name
}

func (c *chaos) startBox(opts sandbox.Options) {
	c.t.Helper()
	opts.Dir = filepath.Join(c.dir, "sandbox")
	var err error
	if c.box, err = startSandbox("127.0.0.1:0", opts); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if err := c.box.stop(); err != nil {
			c.t.Error(err)
		}
	})
}

// cutAt puts text in place of a file's end.
func (c *chaos) cutAt(name, mark, text string) {
	c.t.Helper()
	raw, err := os.ReadFile(filepath.Join(c.dir, name))
	if err != nil {
		c.t.Fatal(err)
	}
	kept, _, ok := bytes.Cut(raw, []byte(mark))
	if !ok {
		c.t.Fatalf("%s does not hold %q", name, mark)
	}
	c.file(name, string(kept)+"\n"+text)
}

// begin starts the next life of a daemon, armed with the next point.
func (c *chaos) begin(i int) {
	c.t.Helper()
	d := &daemon{outages: c.outages.Load(), began: time.Now()}
	if j := slices.IndexFunc(c.points, func(p string) bool { return p != crashpoint.IntakeAccepted }); j >= 0 {
		d.point = c.points[j]
		c.points = slices.Delete(c.points, j, j+1)
		if _, rare := stimuli[d.point]; !rare {
			d.point = fmt.Sprintf("%s:%d", d.point, 1+c.rand.IntN(2))
		}
	}
	d.serving = c.startServe("ROLLCALL_CRASH=" + d.point)
	if i == len(c.daemons) {
		c.daemons = append(c.daemons, d)
	}
	c.daemons[i] = d
}

// kill ends a daemon, wherever it is.
func (c *chaos) kill(i int) {
	c.t.Helper()
	d := c.daemons[i]
	d.killed = true
	if err := d.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		c.t.Fatal(err)
	}
	<-d.ended
	c.look()
}

// look begins the next life of every daemon that has ended.
func (c *chaos) look() {
	c.t.Helper()
	for i, d := range c.daemons {
		select {
		case <-d.ended:
			c.died(d)
			c.begin(i)
		default:
		}
	}
}

// died holds that a daemon ends only by a kill, or when it cannot begin.
func (c *chaos) died(d *daemon) {
	c.t.Helper()
	status, _ := d.cmd.ProcessState.Sys().(syscall.WaitStatus)
	killed := status.Signaled() && status.Signal() == syscall.SIGKILL
	c.clean("a daemon", d.all())
	c.t.Logf("%6.1fs: a daemon, armed with %q, ends after %s: %s", time.Since(c.began).Seconds(), d.point, time.Since(d.began).Round(10*time.Millisecond), d.cmd.ProcessState)
	switch point := d.pointName(); {
	case killed && !d.killed && point != "":
		c.log.hits = append(c.log.hits, point)
		return
	case killed && d.killed:
		c.log.kills++
	case d.cmd.ProcessState.ExitCode() == exitFailed && c.outages.Load() > d.outages-d.outages%2 && !strings.Contains(d.all(), `"message":"serving"`):
		c.log.lostStarts++
	default:
		c.t.Fatalf("a daemon ends with %s:\n%s", d.cmd.ProcessState, d.all())
	}
	if d.point != "" {
		c.points = append(c.points, d.pointName())
	}
}

// clean holds that no text is in what a process wrote.
func (c *chaos) clean(what, wrote string) {
	c.t.Helper()
	if i := strings.Index(wrote, marker); i >= 0 {
		c.t.Errorf("%s wrote report text: …%s…", what, wrote[max(0, i-200):min(len(wrote), i+50)])
	}
}

// missing are the crash points that were not hit yet.
func (c *chaos) missing() []string {
	out := slices.Clone(c.points)
	for _, d := range c.daemons {
		if d.point != "" {
			out = append(out, d.pointName())
		}
	}
	if c.feeder.crash.Load() {
		out = append(out, crashpoint.IntakeAccepted)
	}
	return out
}

// armIdle kills a daemon that is armed with nothing, where points are left.
func (c *chaos) armIdle() {
	c.t.Helper()
	for i, d := range c.daemons {
		if d.point == "" && slices.ContainsFunc(c.points, func(p string) bool { return p != crashpoint.IntakeAccepted }) {
			c.kill(i)
		}
	}
}

// live lets time pass until a condition holds, and begins again whatever ends
// meanwhile. It says whether the condition came to hold.
func (c *chaos) live(d time.Duration, holds func() bool) bool {
	c.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	end := time.After(d)
	for {
		c.look()
		if holds() {
			return true
		}
		select {
		case <-end:
			return false
		case err := <-c.feeder.failed:
			c.t.Fatal(err)
		case <-tick.C:
		}
	}
}

// crashDatabase stops PostgreSQL as `-m immediate` does, and starts it again.
func (c *chaos) crashDatabase() {
	c.t.Helper()
	c.outages.Add(1)
	c.cluster.Crash()
	c.live(c.within(chaosOutage), never)
	c.cluster.Start()
	c.outages.Add(1)
	c.log.outages++
}

// work hands over the next slice of reports, to a provider in a mood.
func (c *chaos) work() {
	c.t.Helper()
	c.misbehave()
	c.takeIn()
}

// takeIn hands the next slice to the feeder, once it is free.
func (c *chaos) takeIn() {
	c.t.Helper()
	run := intakeRun{file: c.slice()}
	if i := slices.Index(c.points, crashpoint.IntakeAccepted); i >= 0 {
		run.crash = crashpoint.IntakeAccepted
		c.points = slices.Delete(c.points, i, i+1)
		c.feeder.crash.Store(true)
	} else if c.rand.IntN(4) == 0 {
		run.kill = c.within(intakeKill)
	}
	if !c.live(drainLimit, func() bool {
		select {
		case c.queue <- run:
			return true
		default:
			return false
		}
	}) {
		c.t.Fatal("intake does not end")
	}
}

// intakeRun is a file to be taken in. The first process at it may be killed.
type intakeRun struct {
	file  string
	crash string        // at a point
	kill  time.Duration // or after this long; 0 for not
}

// feeder takes files in, one after the other, each until a process has done it.
type feeder struct {
	failed chan error
	done   chan struct{}
	crash  atomic.Bool // an intake is yet to crash at its point
}

func (f *feeder) ended() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

func (c *chaos) takeInWhileOthersWork() {
	c.queue = make(chan intakeRun, 1)
	c.feeder.failed, c.feeder.done = make(chan error, 1), make(chan struct{})
	go func() {
		defer close(c.feeder.done)
		for run := range c.queue {
			if err := c.intake(run); err != nil {
				c.feeder.failed <- err
				return
			}
		}
	}()
	c.t.Cleanup(func() {
		if c.t.Failed() && !c.feeder.ended() {
			defer func() { _ = recover() }() // calm may have closed it
			close(c.queue)
		}
		<-c.feeder.done
	})
}

// intake runs processes over a file until one of them has read it.
func (c *chaos) intake(run intakeRun) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for {
		before := c.outages.Load()
		cmd := exec.CommandContext(c.t.Context(), self, "-c", filepath.Join(c.dir, "rollcall.yaml"), "intake", run.file)
		cmd.Env = append(os.Environ(), beMain+"=1", "ROLLCALL_CRASH="+run.crash)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			return err
		}
		if run.kill > 0 {
			defer time.AfterFunc(run.kill, func() { _ = cmd.Process.Kill() }).Stop()
		}
		ended := cmd.Wait()
		if strings.Contains(out.String(), marker) {
			return errors.New("intake wrote report text")
		}
		status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
		switch {
		case ended == nil && run.crash == "":
			return nil
		case ended == nil:
			return fmt.Errorf("intake ends without %s", run.crash)
		case status.Signaled() && status.Signal() == syscall.SIGKILL:
			if run.crash != "" {
				c.feeder.crash.Store(false)
			}
			c.log.intakeKills.Add(1)
			run.crash, run.kill = "", 0
		case cmd.ProcessState.ExitCode() == exitFailed && c.outages.Load() > before-before%2:
			c.log.again.Add(1)
		default:
			return fmt.Errorf("intake ends with %s: %s", cmd.ProcessState, out.String())
		}
	}
}

// settled says whether every report has its record and nothing is under way. It
// looks at the whole ledger, so it does so now and then only.
func (c *chaos) settled() bool {
	c.t.Helper()
	if !c.feeder.ended() || time.Since(c.looked) < settledEvery {
		return false
	}
	defer func() { c.looked = time.Now() }()
	o := asJSON[reconcile.Overview](c.operator, exitAny, "status")
	for _, s := range []reconcile.JobState{reconcile.JobPlanning, reconcile.JobReady, reconcile.JobSubmitted, reconcile.JobEnded} {
		if o.Jobs[s] > 0 {
			return false
		}
	}
	return o.Reports == int64(c.size.reports) && o.Works[reconcile.StageRecorded] == o.Reports &&
		o.Works[reconcile.StagePending]+o.Works[reconcile.StageCollected]+o.Works[reconcile.StageExtracted] == 0 &&
		len(o.Open)+len(o.Uncertain) == 0
}

// stopInOrder tells a daemon to stop.
func (c *chaos) stopInOrder(d *daemon) {
	c.t.Helper()
	d.signal(syscall.SIGTERM)
	select {
	case <-d.ended:
	case <-time.After(stopLimit):
		c.t.Fatalf("a daemon does not stop within %s:\n%s", stopLimit, d.all())
	}
	if code := d.cmd.ProcessState.ExitCode(); code != exitDone {
		c.t.Errorf("a daemon stops with %s:\n%s", d.cmd.ProcessState, d.all())
	}
	c.clean("a daemon", d.all())
}
