package reconcile

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"rollcall/batch"
)

// AccountStore compares what an account holds with what the ledger knows.
type AccountStore interface {
	// LedgerIdentity says which ledger this is.
	LedgerIdentity(ctx context.Context) (LedgerIdentity, error)

	// DueUncertain lists submissions of unknown outcome that are due to be looked
	// for, oldest first.
	DueUncertain(ctx context.Context, now time.Time, limit int) ([]Uncertain, error)
	// Uncertain is the open submission of a job, or ErrNotFound.
	Uncertain(ctx context.Context, jobID string) (Uncertain, error)
	// Landmarks lists the jobs that the ledger knows an account to hold, made
	// since an instant, and those that were made to be found in its list.
	Landmarks(ctx context.Context, account string, since time.Time) ([]Landmark, error)
	// RecordProbe notes a landmark that was made to be one.
	RecordProbe(ctx context.Context, account, providerJobID string, made time.Time) error
	// RecordLook notes a look that settled nothing. ErrMoved when the submission
	// is closed.
	RecordLook(ctx context.Context, l Look) error
	// CommitRepeat notes a look that is about to repeat a request under its key, as
	// an intent is committed: a pause or a revocation that came before is seen, and
	// one that comes later waits. ErrPaused, ErrNotApproved, ErrMoved,
	// ErrUnknownCommit: do not send.
	CommitRepeat(ctx context.Context, l Look, account string, policy PolicyKey) error
	// RecordFence notes that the input file of an open submission was deleted, so
	// that a create which is still on its way fails. ErrMoved.
	RecordFence(ctx context.Context, now time.Time, submissionID string, next time.Time) error
	// RecordAbsent closes a submission of which no job is left to come; its job is
	// ready again. Again changes nothing; ErrMoved when it was closed otherwise.
	RecordAbsent(ctx context.Context, now time.Time, a Absence) error

	// Standings says what the ledger knows of listed jobs and files, in their order.
	Standings(ctx context.Context, refs []ObjectRef) ([]Standing, error)
	// NoteSurplus notes that an account holds what it should not, with a finding
	// the first time.
	NoteSurplus(ctx context.Context, now time.Time, s Surplus, finding Event) error
	// OpenSurplus lists noted objects that may still exist.
	OpenSurplus(ctx context.Context, account string, kind ObjectKind) ([]string, error)
	// MarkGone notes that a surplus object exists no longer.
	MarkGone(ctx context.Context, now time.Time, account string, kind ObjectKind, id string) error

	// AdoptJob makes a job of the ledger out of one that the provider holds and
	// the ledger does not know, with those of its works that are still to be done
	// as members. Unsent jobs that hold them are given up; ErrMoved when one of
	// them is sent meanwhile, and nothing was written.
	AdoptJob(ctx context.Context, now time.Time, a Adoption) (Adopted, error)
	// RaiseGeneration begins a new generation of the ledger, from an expected one.
	RaiseGeneration(ctx context.Context, now time.Time, from int64, actor, reason string) error
}

// LedgerIdentity is which ledger this is, and which of its lives: the generation grows
// when a restored copy takes over.
type LedgerIdentity struct {
	LedgerID   string
	Generation int64
}

// The metadata of a provider job. It holds ids and digests only, since a job
// cannot be deleted there.
const (
	metaLedger     = "rc_ledger"
	metaGeneration = "rc_generation"
	metaJob        = "rc_job"
	metaSubmission = "rc_submission"
	metaManifest   = "rc_manifest"
	metaProbe      = "rc_probe"
)

func (id LedgerIdentity) metadata(s Submission) map[string]string {
	return map[string]string{
		metaLedger: id.LedgerID, metaGeneration: strconv.FormatInt(id.Generation, 10),
		metaJob: s.JobID, metaSubmission: s.ID, metaManifest: s.Manifest,
	}
}

// fileName names a request body after what it is for, so that a file without a
// job can be told from one in use.
func (id LedgerIdentity) fileName(jobID, submissionID string) string {
	return fmt.Sprintf("rollcall_%s_%s_%s.jsonl", id.LedgerID, jobID, submissionID)
}

// fileOf is the inverse of fileName; false for a file that is not this ledger's.
func (id LedgerIdentity) fileOf(name string) (jobID, submissionID string, ok bool) {
	rest, ok := strings.CutPrefix(name, "rollcall_"+id.LedgerID+"_")
	if !ok {
		return "", "", false
	}
	rest, ok = strings.CutSuffix(rest, ".jsonl")
	if !ok {
		return "", "", false
	}
	jobID, submissionID, ok = strings.Cut(rest, "_")
	return jobID, submissionID, ok && reference(jobID) && reference(submissionID)
}

// Landmark is a job that the account certainly holds: a list that does not show
// it is not complete, and one that shows it reaches to when it was made.
type Landmark struct {
	ProviderJobID string
	MadeAt        time.Time // by the ledger's clock
	Probe         bool
}

// listSkew is how much further back than needed a list is read: the provider's
// clock is not ours, and ours may be wrong by hours when a job is sent and right
// again when it is looked for.
const listSkew = 24 * time.Hour

// listing is what an account's list of jobs showed.
type listing struct {
	jobs []batch.ListedJob
	seen map[string]bool // by the provider's id
}

// Bounds of a list. A server that never comes to an end must not hold up the
// others, nor fill the memory.
const (
	listEntries = 100_000
	listWithin  = 10 * time.Minute
)

// pages walks through a list that is read by cursors.
type pages struct {
	op      string
	entries int
	seen    map[string]bool // cursors that were used
}

// next is the cursor behind a page, and false at the end. A list that goes round
// in circles or does not end is BadAnswer.
func (p *pages) next(cursor string, entries int) (more bool, err error) {
	p.entries += entries
	bad := func(code string) (bool, error) {
		return false, &batch.Error{Op: p.op, Kind: batch.BadAnswer, Code: code}
	}
	switch {
	case cursor == "":
		return false, nil
	case p.seen[cursor]:
		return bad("cursor_again")
	case p.entries > listEntries || len(p.seen) > listEntries/10:
		return bad("list_too_long")
	}
	if p.seen == nil {
		p.seen = map[string]bool{}
	}
	p.seen[cursor] = true
	return true, nil
}

// reference is true for what we write into metadata and file names: an id, or a
// digest. What has another shape was not written by us, and is no text to store.
func reference(s string) bool {
	return s != "" && len(s) <= 128 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

// slim keeps of a listed job what is looked at, so that a long list is no burden.
func slim(j batch.ListedJob) batch.ListedJob {
	j.Faults = nil
	kept := map[string]string{}
	for _, key := range []string{metaLedger, metaJob, metaSubmission, metaManifest, metaProbe} {
		if v, ok := j.Metadata[key]; ok {
			kept[key] = v
		}
	}
	j.Metadata = kept
	return j
}

// listJobs reads an account's list of jobs back to an instant. The order of the
// list is documented nowhere, so it is read until two whole pages are older.
func (r *Reconciler) listJobs(ctx context.Context, inv batch.Inventory, since time.Time) (listing, error) {
	ctx, cancel := context.WithTimeout(ctx, listWithin)
	defer cancel()
	since = since.Add(-listSkew)
	l := listing{seen: map[string]bool{}}
	walk := pages{op: "list jobs"}
	cursor, olderPages := "", 0
	for {
		page, err := inv.ListJobs(ctx, cursor)
		if err != nil {
			return listing{}, err
		}
		older := true
		for _, j := range page.Jobs {
			if j.Created.IsZero() || !j.Created.Before(since) {
				older = false
			}
			if !l.seen[j.ID] { // a job that is made meanwhile shifts the pages
				l.seen[j.ID] = true
				l.jobs = append(l.jobs, slim(j))
			}
		}
		if olderPages++; !older {
			olderPages = 0
		}
		more, err := walk.next(page.Next, len(page.Jobs))
		if olderPages == 2 || err == nil && !more {
			return l, nil
		}
		if err != nil {
			return listing{}, err
		}
		cursor = page.Next
	}
}

// lacks counts the jobs that the list should show and does not.
func (l listing) lacks(known []Landmark) int {
	n := 0
	for _, k := range known {
		if !k.Probe && !l.seen[k.ProviderJobID] {
			n++
		}
	}
	return n
}

// reaches says whether the list shows something that was made at an instant or
// later. What was made before is then not hidden by its newness.
func (l listing) reaches(at time.Time, known []Landmark) bool {
	for _, k := range known {
		if !k.MadeAt.Before(at) && l.seen[k.ProviderJobID] {
			return true
		}
	}
	return false
}
