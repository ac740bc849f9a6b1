package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"rollcall/reconcile"
	"rollcall/reconcile/witness"
)

// witnessed compares the ledger with what is remembered of it elsewhere.
func (x *examination) witnessed(ctx context.Context) {
	const check = "witness"
	if x.config.Witness == "" {
		x.warn(check, "name a file as witness in the configuration", "there is none: a restored copy, or a fail-over that lost commits, would not be noticed, and texts could be sent again")
		return
	}
	file := witness.New(x.config.Witness, x.store, time.Now)
	if err := file.CheckWritable(); err != nil {
		x.bad(check, "make its folder writable for this user, and have room there: until then nothing is sent", "%s", oneLine(err))
	}
	c, err := file.Compare(ctx)
	switch {
	case errors.Is(err, witness.ErrDamaged):
		x.bad(check, "make sure that the database is the right one and the newest that there is; then move the file away: the next command that writes makes a new one", "%s", oneLine(err))
		return
	case errors.Is(err, fs.ErrPermission):
		x.bad(check, "make it readable for this user", "%s", oneLine(err))
		return
	case errors.Is(err, witness.ErrOtherLedger):
		x.bad(check, "name the database of this deployment, or another witness file for a new one", "%s: %v", x.config.Witness, err)
		return
	case err != nil:
		x.unknown(check, err)
		return
	}
	switch lacks := c.Rewound(); {
	case lacks != "":
		x.bad(check, `deliver again what came in since the copy was made; then run: rollcall recover --reason "…"`, "the ledger is older than %s, of %s: %s%s",
			x.config.Witness, when(c.NotedAt), lacks, missingWords(c))
	case c.NotedAt.IsZero():
		x.warn(check, "was it moved away? put it back; otherwise the next command that writes makes it", "%s is not there yet: nothing is remembered of the ledger", x.config.Witness)
	default:
		x.ok(check, "the ledger has all that %s remembers, of %s", x.config.Witness, when(c.NotedAt))
	}
	if db := x.config.Database; !db.IsPostgres() && filepath.Dir(db.Path) == filepath.Dir(x.config.Witness) {
		x.warn(check, "put it on another disk, and not into the database's backups", "%s is in the database's folder: who restores the folder restores both, and nothing is noticed", x.config.Witness)
	}
}

// missingShown is how many ids one line names.
const missingShown = 3

// missingWords names some of the submissions that a ledger lacks.
func missingWords(c reconcile.Comparison) string {
	ids := c.MissingIntents
	if len(ids) == 0 {
		return ""
	}
	return " (submissions " + strings.Join(ids[:min(len(ids), missingShown)], ", ") + moreWord(len(ids)-missingShown) + ")"
}

func moreWord(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}

// leases tells who is at work.
func (x *examination) leases(ctx context.Context) {
	o, err := x.store.Overview(ctx, x.now)
	if err != nil {
		x.unknown("leases", err)
		return
	}
	var held []string
	for _, l := range o.Leases {
		held = append(held, fmt.Sprintf("%s by %s until %s", l.Name, l.Holder, when(l.Until)))
	}
	if len(held) == 0 {
		x.ok("leases", "none is held: no pass is running")
		return
	}
	x.ok("leases", "%s", strings.Join(held, "; "))
}

// schedules tells which run late, or cannot run.
func (x *examination) schedules(ctx context.Context) {
	const check = "schedules"
	good, refused := x.config.Scheduled()
	for _, r := range refused {
		x.wrong(check, mendConfig, r.Err)
	}
	known, err := x.store.Schedules(ctx, x.now)
	if err != nil {
		x.unknown(check, err)
		return
	}
	byName := map[string]reconcile.ScheduleView{}
	for _, v := range known {
		byName[v.Name] = v
	}
	late, never := 0, 0
	for _, s := range good {
		v, ok := byName[s.Name]
		switch {
		case !ok:
			never++
		case v.Cron != s.Expression || v.Zone != s.Zone:
			x.warn(check, "give every daemon the same configuration, and restart: rollcall serve", "%s is %q in %s in the ledger, and %q in %s in this configuration", s.Name, v.Cron, v.Zone, s.Expression, s.Zone)
		case v.Late(x.now, x.config.Serve.LateAfter.Std()):
			late++
			x.bad(check, "is the daemon running, and without errors in its log? start it: rollcall serve", "%s was due %s, and no process is at it%s", s.Name, when(v.NextDue), lastRun(v))
		}
	}
	switch {
	case len(good) > 0 && never == len(good):
		x.warn(check, "if the passes are not run by another scheduler, start the daemon: rollcall serve", "the daemon has never run over this ledger")
	case late == 0:
		x.ok(check, "%s in time", plural(len(good)-never, "schedule is", "schedules are"))
	}
}

func lastRun(v reconcile.ScheduleView) string {
	if v.Last == nil {
		return ""
	}
	return fmt.Sprintf("; its last run began %s: %s", when(v.Last.StartedAt), v.Last.Outcome)
}

// decisions tells what waits for an operator, as status does.
func (x *examination) decisions(ctx context.Context) {
	d, err := x.store.Decisions(ctx, x.now)
	if err != nil {
		x.unknown("decisions", err)
		return
	}
	for _, p := range d.Pauses {
		x.bad("pauses", fmt.Sprintf(`once its cause is gone, run: rollcall resume --scope %s --stage %s --reason "…"`, p.Scope, p.Stage),
			"%s of %s is paused since %s by %s: %s", p.Stage, p.Scope, when(p.SetAt), p.Actor, p.Reason)
	}
	if len(d.Pauses) == 0 {
		x.ok("pauses", "nothing is paused")
	}
	x.uncertain(d)
	if d.Held > 0 {
		x.bad("held reports", `see which policy is meant, with: rollcall policy list; then run: rollcall policy approve NAME --reason "…"`,
			"%s for an approved policy of their source", plural(int(d.Held), "report waits", "reports wait"))
	}
	for _, f := range d.NeedsDecision {
		x.bad("findings", "what it means, and what to do, says: rollcall findings", "%s: %s, %s, since %s", f.Name, f.Subject, f.Detail, when(f.OpenedAt))
	}
	if len(d.NeedsDecision) == 0 {
		x.ok("findings", "none that needs a decision")
	}
}

func (x *examination) uncertain(d reconcile.Decisions) {
	const check = "submissions"
	for _, u := range d.Uncertain {
		if u.Obstacle == "" {
			x.warn(check, "wait; or see more, with: rollcall job resolve "+u.JobID, "nobody knows yet whether the provider has job %s; resolve looks for it %s", u.JobID, whenLook(u))
			continue
		}
		x.bad(check, "see the evidence and decide, with: rollcall job resolve "+u.JobID, "nobody knows whether the provider has job %s: %s", u.JobID, u.Obstacle)
	}
	if len(d.Uncertain) == 0 {
		x.ok(check, "none is of unknown outcome, and %d on the way", len(d.Open))
	}
}

// jobsExamined bounds how many jobs are looked at for their age.
const jobsExamined = 10_000

// jobs tells which are older than expected.
func (x *examination) jobs(ctx context.Context) {
	const check = "jobs"
	jobs, err := x.store.Jobs(ctx, []reconcile.JobState{reconcile.JobSubmitted, reconcile.JobEnded}, jobsExamined)
	if err != nil {
		x.unknown(check, err)
		return
	}
	s := x.config.Settings()
	old := 0
	for _, j := range jobs {
		since, within, remedy := j.SubmittedAt, s.JobOverdue, "see what the provider says of it, with: rollcall job inspect "+j.JobID
		if j.State == reconcile.JobEnded {
			since, within, remedy = j.EndedAt, s.StuckAfter, "read its results, with: rollcall run consume apply"
		}
		if since == nil || x.now.Sub(*since) <= within {
			continue
		}
		if old++; old <= missingShown {
			x.warn(check, remedy, "job %s is %s since %s, longer than %s", j.JobID, j.State, when(*since), within)
		}
	}
	switch {
	case old > missingShown:
		x.warn(check, "to see them all, run: rollcall jobs --state submitted --state ended", "%s older than expected", plural(old-missingShown, "more job is", "more jobs are"))
	case old == 0:
		x.ok(check, "%s at the provider or to be read, none older than expected", plural(len(jobs), "job is", "jobs are"))
	}
}

// approvals compares what the ledger permits with the accounts.
func (x *examination) approvals(ctx context.Context) {
	const check = "approvals"
	stored, err := x.store.Policies(ctx)
	if err != nil {
		x.unknown(check, err)
		return
	}
	approved := 0
	for _, p := range stored {
		if p.State != reconcile.PolicyApproved {
			continue
		}
		approved++
		if err := x.config.CheckPolicy(p.Policy); err != nil {
			x.warn(check, "correct the account, or approve a new version; see: rollcall policy list", "approved, and nothing is sent under it: %s", oneLine(err))
		}
	}
	if approved == 0 {
		x.warn(check, `run: rollcall policy approve NAME --reason "…"`, "no policy is approved, so no text is sent")
		return
	}
	x.ok(check, "%s approved", plural(approved, "policy version is", "policy versions are"))
}
