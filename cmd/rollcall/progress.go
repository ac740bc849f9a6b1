package main

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"

	"rollcall/reconcile"
)

// plainEvery is how often progress is told where there is no terminal.
const plainEvery = 10 * time.Second

// progress shows how far long work is: a bar on a terminal, a plain line now
// and then elsewhere, nothing for short work.
type progress struct {
	w     io.Writer
	what  string
	bar   *progressbar.ProgressBar
	plain bool
	last  time.Time
}

func (a *app) newProgress() *progress {
	return &progress{w: a.errOut, plain: !isTerminal(a.errOut), last: time.Now()}
}

// passProgress lets a reconciler tell how far its passes are.
func (a *app) passProgress(r *reconcile.Reconciler) *progress {
	p := a.newProgress()
	r.Progress = func(pass reconcile.PassName, done, total int64) { p.tell(string(pass), done, total) }
	return p
}

// tell shows done of total; a total of 0 or less means that nobody knows it.
func (p *progress) tell(what string, done, total int64) {
	if p.plain {
		p.line("%s: %s", what, ofTotal(done, total))
		return
	}
	if p.bar == nil || p.what != what {
		p.show(what, total)
	}
	if total > 0 {
		p.bar.ChangeMax64(total)
	}
	_ = p.bar.Set64(done) // a terminal that went away is no reason to stop
}

// waiting says what long work waits for.
func (p *progress) waiting(until time.Time) {
	what := "waiting for the provider, next look at " + until.Format(time.TimeOnly)
	if p.plain {
		p.line("%s", what)
		return
	}
	if p.what != what {
		p.show(what, 0)
	}
}

// line prints a plain line, at most one in a while.
func (p *progress) line(format string, args ...any) {
	if time.Since(p.last) >= plainEvery {
		p.last = time.Now()
		fmt.Fprintf(p.w, format+"\n", args...)
	}
}

func (p *progress) show(what string, total int64) {
	p.done()
	p.what = what
	if total <= 0 {
		total = -1 // a spinner
	}
	p.bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(p.w), progressbar.OptionSetDescription(what),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(), progressbar.OptionShowCount(),
		progressbar.OptionEnableColorCodes(false))
	_ = p.bar.RenderBlank()
}

func (p *progress) done() {
	if p.bar != nil {
		_ = p.bar.Clear()
		p.bar, p.what = nil, ""
	}
}

func ofTotal(done, total int64) string {
	if total <= 0 {
		return fmt.Sprint(done)
	}
	return fmt.Sprintf("%d of %d", done, total)
}
