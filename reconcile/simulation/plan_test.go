package simulation

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"rollcall/batch"
	"rollcall/reconcile"
)

// fault is a kind of thing that goes wrong, or that somebody does at a bad moment.
type fault string

// The faults of calls to the processor.
const (
	lostRequest  fault = "lost_request"  // it never arrives
	lostAnswer   fault = "lost_answer"   // it is carried out, and nobody is told
	lateRequest  fault = "late_request"  // it arrives long after its sender gave it up
	refusedCall  fault = "refused_call"  // 4xx and 429: it is not carried out, and that is certain
	unavailable  fault = "unavailable"   // 503 to a look-up, a list, a download
	falseMiss    fault = "false_miss"    // 404 for a job that exists
	statusLag    fault = "status_lag"    // a look-up shows how the job was when it was new
	listLag      fault = "list_lag"      // a list does not show the newest jobs yet
	emptyList    fault = "empty_list"    // a list that shows nothing at all
	tornDownload fault = "torn_download" // it breaks off
	cleanCut     fault = "clean_cut"     // it is short and does not say so
	fileMissing  fault = "file_missing"  // 404 for a result file that comes back
)

// The faults of jobs and of what they return.
const (
	resultsLost   fault = "results_lost"   // a result file is gone for good
	jobVanished   fault = "job_vanished"   // the processor forgets a job
	jobRefused    fault = "job_refused"    // the body is refused as a whole
	jobExpired    fault = "job_expired"    // a part of it was never run
	itemMissing   fault = "item_missing"   // no line
	itemFailed    fault = "item_failed"    // a temporary error
	itemRefused   fault = "item_refused"   // the model declines
	itemTruncated fault = "item_truncated" //
	itemMalformed fault = "item_malformed" // a line that is none
	itemInvalid   fault = "item_invalid"   // an answer that does not answer
	itemCrossed   fault = "item_crossed"   // another item's answer
	itemTwice     fault = "item_twice"     // the same line twice
	itemConflict  fault = "item_conflict"  // two answers that differ
	itemUnknown   fault = "item_unknown"   // a line for an item of somebody else
	itemStubborn  fault = "item_stubborn"  // none of the answers to it can be used
)

// The faults of calls about one text each.
const (
	callUnheard  fault = "call_unheard"   // it is answered, and nobody hears it
	callFailed   fault = "call_failed"    // a temporary fault
	callTooFast  fault = "call_too_fast"  // 429, without a word about when
	callHeldBack fault = "call_held_back" // 429, and not before an instant
	callRefused  fault = "call_refused"   // 400: not this text
	callDenied   fault = "call_denied"    // 401: not this account
	callCrossed  fault = "call_crossed"   // the answer to another text
	probeFailed  fault = "probe_failed"   // the account does not answer as it must
)

// The faults of processes, of the database and of the clock.
const (
	crash        fault = "crash"         // between two steps
	crashBefore  fault = "crash_before"  // with a transaction that is not committed
	crashAfter   fault = "crash_after"   // behind a commit that nobody hears of
	commitUndone fault = "commit_undone" // COMMIT errs, and did not happen
	commitUnsaid fault = "commit_unsaid" // COMMIT errs, and happened
	longPause    fault = "long_pause"    // a process stands still for an hour and more
	lateSender   fault = "late_sender"   // so does one that has noted its body and is about to ask for the job
	clockSkew    fault = "clock_skew"    // processes disagree by up to two seconds
	clockAhead   fault = "clock_ahead"   // the wall clock jumps ahead
	clockBack    fault = "clock_back"    // the wall clock jumps back
)

// What sources and people do.
const (
	delivery2    fault = "delivered_twice"
	edited       fault = "edited"
	lateRevision fault = "late_revision" // revisions out of order
	contradicted fault = "contradicted"  // other content under the same revision
	heldSource   fault = "held_source"   // reports come before their policy is approved
	braked       fault = "paused"
	revoked      fault = "revoked"
	routed       fault = "routed"        // a report is given to a person
	restored     fault = "restored"      // the ledger is replaced by an older copy
	copiedMidway fault = "copied_midway" // that is from behind an intent, and is put back when its job is made
)

// rates are how often a fault strikes where it can.
var rates = map[fault]float64{
	lostRequest: 0.03, lostAnswer: 0.04, lateRequest: 0.6, refusedCall: 0.03, unavailable: 0.05, falseMiss: 0.02, statusLag: 0.05,
	listLag: 0.05, emptyList: 0.03, tornDownload: 0.08, cleanCut: 0.03, fileMissing: 0.03,
	resultsLost: 0.02, jobVanished: 0.02, jobRefused: 0.03, jobExpired: 0.06,
	itemMissing: 0.02, itemFailed: 0.02, itemRefused: 0.01, itemTruncated: 0.01, itemMalformed: 0.01, itemInvalid: 0.01,
	itemCrossed: 0.005, itemTwice: 0.01, itemConflict: 0.01, itemUnknown: 0.005, itemStubborn: 0.004,
	callUnheard: 0.03, callFailed: 0.04, callTooFast: 0.01, callHeldBack: 0.01, callRefused: 0.01, callDenied: 0.008, callCrossed: 0.02, probeFailed: 0.05,
	crash: 0.006, crashBefore: 0.004, crashAfter: 0.006, commitUndone: 0.01, commitUnsaid: 0.01, longPause: 0.003, lateSender: 0.2,
	clockSkew: 1, clockAhead: 0.001, clockBack: 0.001,
	delivery2: 0.15, edited: 0.15, lateRevision: 0.3, contradicted: 0.03, heldSource: 1,
	braked: 0.002, revoked: 0.0003, routed: 0.002, restored: 0.0012, copiedMidway: 0.15,
}

// faults lists every kind, in the order of their names.
func faults() []fault { return slices.Sorted(maps.Keys(rates)) }

// plan is everything that a run depends on.
type plan struct {
	Seed    uint64
	Reports int
	Processor
	Authority reconcile.AuthorityRule
	Faults    map[fault]bool
}

// newPlan is the plan of a seed. It leaves some faults out, so that no fault
// always hides another, and has reports hundred on average.
func newPlan(seed uint64) plan {
	rng := rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
	all := Processors()
	p := plan{Seed: seed, Processor: all[seed%uint64(len(all))], Authority: reconcile.HighestAccepted, Faults: map[fault]bool{}}
	if rng.IntN(3) == 0 {
		p.Authority = reconcile.HighestApplied
	}
	// A few small worlds, where everything meets, and some that fill many jobs.
	p.Reports = []int{5, 20, 60, 100, 150, 265}[rng.IntN(6)]
	for _, f := range faults() {
		p.Faults[f] = rng.Float64() < 0.7
	}
	if p.Settles != batch.SettleByListing {
		// A ledger is recovered from the lists of accounts that tell whose jobs they
		// hold, or without one from an account that holds none.
		p.Faults[restored], p.Faults[copiedMidway] = p.Faults[restored] && p.calls(), false
	}
	return p
}

// calls says whether the processor has no jobs, so that each text is a call.
func (p plan) calls() bool { return p.Settles == batch.SettleByRepeat }

// String is the plan in one line, as planOf reads it.
func (p plan) String() string {
	var on []string
	for _, f := range faults() {
		if p.Faults[f] {
			on = append(on, string(f))
		}
	}
	return fmt.Sprintf("%d:%d:%s:%s:%s", p.Seed, p.Reports, p.Processor, p.Authority, strings.Join(on, ","))
}

// planOf reads a plan, or a seed alone.
func planOf(s string) (plan, error) {
	parts := strings.Split(s, ":")
	seed, err := strconv.ParseUint(parts[0], 10, 64)
	if err != nil || len(parts) != 1 && len(parts) != 5 {
		return plan{}, fmt.Errorf("%q is neither a seed nor a plan", s)
	}
	p := newPlan(seed)
	if len(parts) == 1 {
		return p, nil
	}
	of := slices.IndexFunc(Processors(), func(of Processor) bool { return of.String() == parts[2] })
	p.Authority, p.Faults = reconcile.AuthorityRule(parts[3]), map[fault]bool{}
	switch p.Reports, err = strconv.Atoi(parts[1]); {
	case err != nil || p.Reports < 1:
		return plan{}, fmt.Errorf("%q is no number of reports", parts[1])
	case of < 0:
		return plan{}, fmt.Errorf("there is no world with a processor %q", parts[2])
	case p.Authority != reconcile.HighestAccepted && p.Authority != reconcile.HighestApplied:
		return plan{}, fmt.Errorf("there is no rule of authority %q", parts[3])
	}
	p.Processor = Processors()[of]
	for f := range strings.SplitSeq(parts[4], ",") {
		if _, ok := rates[fault(f)]; !ok && f != "" {
			return plan{}, fmt.Errorf("there is no fault %q", f)
		}
		p.Faults[fault(f)] = true
	}
	return p, nil
}

// without is the plan with fewer faults or reports.
func (p plan) without(f fault) plan {
	p.Faults = maps.Clone(p.Faults)
	p.Faults[f] = false
	return p
}
