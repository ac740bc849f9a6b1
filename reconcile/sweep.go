package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"rollcall/batch"
	"rollcall/reconcile/crashpoint"
)

// ObjectKind is what an account can hold of ours.
type ObjectKind string

// The kinds.
const (
	ObjectJob  ObjectKind = "job"
	ObjectFile ObjectKind = "file" // a request body
)

// ObjectRef is a listed object with the references that it carries.
type ObjectRef struct {
	Kind         ObjectKind
	Account      string // fingerprint
	ID           string
	SubmissionID string // "" when it carries none
	FileID       string // a job's request body
}

// Standing is what the ledger knows of a listed object.
type Standing struct {
	Known        bool              // a job by its id, or a probe
	SubmissionID string            // the submission that it is of, by either reference; "" for none
	Outcome      SubmissionOutcome // of that submission; "" while it is open
	JobState     JobState          // of that submission's job
	InputFileID  string            // of that submission
	NotedSurplus bool
	Gone         bool // it was surplus and is gone
}

// Surplus is an object that an account holds and should not.
type Surplus struct {
	Account      string
	Kind         ObjectKind
	ID           string
	SubmissionID string
	Why          string
}

// verdict is what sweep does about a listed object.
type verdict int

const (
	sweepKeep    verdict = iota // it is in use, or still being settled
	sweepSurplus                // nothing may come of it: cancel and delete it
	sweepUnknown                // the ledger knows nothing of it, although it says that it is ours
)

// judgeJob decides about a listed job of this ledger.
func judgeJob(s Standing) (verdict, string) {
	switch {
	case s.Known:
		return sweepKeep, ""
	case s.NotedSurplus:
		return sweepSurplus, "noted before"
	case s.SubmissionID == "":
		return sweepUnknown, ""
	case s.Outcome == "":
		return sweepKeep, "" // its sender, or resolve, records it
	case s.Outcome == SubmissionAccepted:
		return sweepSurplus, "its submission made another job as well"
	default:
		return sweepSurplus, "its submission was closed as " + string(s.Outcome)
	}
}

// judgeFile decides about a listed request body of this ledger.
func judgeFile(s Standing, fileID string) (verdict, string) {
	switch {
	case (s.Outcome == "" || s.Outcome == SubmissionAccepted) && s.InputFileID == fileID:
		return sweepKeep, "" // in use, whatever was noted before that was known
	case s.NotedSurplus:
		return sweepSurplus, "noted before"
	case s.SubmissionID == "":
		return sweepUnknown, ""
	case s.Outcome == "":
		return sweepKeep, "" // it may be on its way
	case s.Outcome == SubmissionAccepted:
		return sweepSurplus, "its submission runs over another file"
	default:
		return sweepSurplus, "its submission was closed as " + string(s.Outcome)
	}
}

// Sweep reads what each account holds of this ledger's jobs and request files. A
// job that no submission stands for is cancelled, a file that no job uses is
// deleted, and either is a finding. What the ledger does not know at all means
// that the ledger is older than the account: nothing is touched, and nothing is
// sent any more until a person has looked.
func (r *Reconciler) Sweep(ctx context.Context, now time.Time) (Tally, error) {
	var tally Tally
	id, err := r.Store.LedgerIdentity(ctx)
	if err != nil {
		return tally, err
	}
	for _, account := range r.Accounts {
		inv, ok := account.(batch.Inventory)
		if !ok || account.Capabilities().Settlement != batch.SettleByListing {
			continue
		}
		s := &sweeping{r: r, now: now, id: id, inv: inv, account: account.Account()}
		err := s.run(ctx)
		tally.Add(s.tally)
		if stops(ctx, err) && !isProviderError(err) {
			return tally, fmt.Errorf("sweep account %s: %w", s.account.Name, errors.Join(ctx.Err(), err))
		}
		if err != nil {
			tally.Failed++
			r.Log.Warn().Str("pass", string(PassSweep)).Str("account", s.account.Name).Str("evidence", evidenceOf(err)).Msg("the account could not be swept; it is tried again")
		}
	}
	return tally, nil
}

func isProviderError(err error) bool {
	var e *batch.Error
	return errors.As(err, &e)
}

// sweeping is one account's turn.
type sweeping struct {
	r       *Reconciler
	now     time.Time
	id      LedgerIdentity
	inv     batch.Inventory
	account batch.Account
	used    map[string]bool // request files of listed jobs of this ledger
	tally   Tally
}

func (s *sweeping) run(ctx context.Context) error {
	list, err := s.r.listJobs(ctx, s.inv, s.now.Add(-s.r.Settings.SweepWindow))
	if err != nil {
		return err
	}
	ours, refs := s.ourJobs(list.jobs)
	s.used = map[string]bool{}
	for _, ref := range refs {
		s.used[ref.FileID] = true
	}
	if err := s.each(ctx, refs, func(ctx context.Context, i int, st Standing) error { return s.job(ctx, ours[i], refs[i], st) }); err != nil {
		return err
	}
	return s.files(ctx)
}

// each asks what the ledger knows of listed objects and acts on it, in chunks.
func (s *sweeping) each(ctx context.Context, refs []ObjectRef, act func(context.Context, int, Standing) error) error {
	for from := 0; from < len(refs); from += s.r.Settings.Chunk {
		to := min(from+s.r.Settings.Chunk, len(refs))
		standings, err := s.r.Store.Standings(ctx, refs[from:to])
		if err != nil {
			return err
		}
		for i, st := range standings {
			s.tally.Seen++
			if err := act(ctx, from+i, st); err != nil {
				return err
			}
		}
		s.r.progress(PassSweep, int64(to), int64(len(refs)))
	}
	return nil
}

// ourJobs are the listed jobs of this ledger, by their metadata. A probe is
// nobody's: it failed when it was made.
func (s *sweeping) ourJobs(jobs []batch.ListedJob) (ours []batch.ListedJob, refs []ObjectRef) {
	for _, j := range jobs {
		if j.Metadata[metaLedger] != s.id.LedgerID || j.Metadata[metaProbe] != "" {
			continue
		}
		if !reference(j.Metadata[metaSubmission]) || !reference(j.Metadata[metaJob]) {
			s.r.Log.Warn().Str("account", s.account.Name).Str("provider_job_id", j.ID).Msg("a job names this ledger and is not of it: its other references are none that rollcall writes")
			continue
		}
		ours = append(ours, j)
		refs = append(refs, ObjectRef{Kind: ObjectJob, Account: s.account.Fingerprint, ID: j.ID, SubmissionID: j.Metadata[metaSubmission], FileID: j.FileID})
	}
	return ours, refs
}

func (s *sweeping) job(ctx context.Context, j batch.ListedJob, ref ObjectRef, st Standing) error {
	switch v, why := judgeJob(st); v {
	case sweepUnknown:
		return s.unknown(ctx, "job "+j.ID)
	case sweepSurplus:
		if st.Gone {
			return nil
		}
		if err := s.note(ctx, ref, st, why); err != nil {
			return err
		}
		return s.endJob(ctx, j, ref, st)
	}
	return nil
}

// endJob cancels a surplus job and, once it is over, deletes its files; but not a
// request file that the submission's own job runs over as well.
func (s *sweeping) endJob(ctx context.Context, j batch.ListedJob, ref ObjectRef, st Standing) error {
	if j.Phase == batch.PhaseRunning {
		s.r.Log.Info().Str("pass", string(PassSweep)).Str("provider_job_id", j.ID).Msg("a surplus job is cancelled")
		if err := s.inv.Cancel(ctx, j.ID); err != nil && batch.KindOf(err) != batch.NotFound {
			return err
		}
		s.tally.Moved++
		return nil // its files are deleted by a later run
	}
	var files []string
	if j.FileID != "" && !(st.Outcome == SubmissionAccepted && st.InputFileID == j.FileID) {
		files = append(files, j.FileID)
	}
	for _, f := range j.Files {
		files = append(files, f.ID)
	}
	for _, f := range files {
		if err := s.inv.DeleteFile(ctx, f); err != nil {
			return err
		}
	}
	s.tally.Moved++
	return s.r.Store.MarkGone(ctx, s.now, ref.Account, ref.Kind, ref.ID)
}

// files deletes request bodies that no job uses.
func (s *sweeping) files(ctx context.Context) error {
	listed := map[string]bool{}
	err := s.eachFile(ctx, func(ctx context.Context, f batch.ListedFile, ref ObjectRef, st Standing) error {
		listed[f.ID] = true
		return s.file(ctx, f, ref, st)
	})
	if err != nil {
		return err
	}
	return s.vanishedFiles(ctx, listed)
}

// eachFile reads which request bodies of ours the account holds, and acts on each.
func (s *sweeping) eachFile(ctx context.Context, act func(context.Context, batch.ListedFile, ObjectRef, Standing) error) error {
	cursor, walk := "", pages{op: "list files"}
	for {
		page, err := s.inv.ListFiles(ctx, cursor)
		if err != nil {
			return err
		}
		files, refs := s.ourFiles(page.Files)
		if err := s.each(ctx, refs, func(ctx context.Context, i int, st Standing) error { return act(ctx, files[i], refs[i], st) }); err != nil {
			return err
		}
		if more, err := walk.next(page.Next, len(page.Files)); err != nil || !more {
			return err
		}
		cursor = page.Next
	}
}

// vanishedFiles notes that files are gone which were deleted by a process that
// died before it could note it, or which the provider deleted in its time.
func (s *sweeping) vanishedFiles(ctx context.Context, listed map[string]bool) error {
	open, err := s.r.Store.OpenSurplus(ctx, s.account.Fingerprint, ObjectFile)
	if err != nil {
		return err
	}
	for _, id := range open {
		if listed[id] {
			continue
		}
		if err := s.r.Store.MarkGone(ctx, s.now, s.account.Fingerprint, ObjectFile, id); err != nil {
			return err
		}
	}
	return nil
}

func (s *sweeping) ourFiles(files []batch.ListedFile) (ours []batch.ListedFile, refs []ObjectRef) {
	for _, f := range files {
		_, submission, ok := s.id.fileOf(f.Name)
		if !ok {
			continue
		}
		ours = append(ours, f)
		refs = append(refs, ObjectRef{Kind: ObjectFile, Account: s.account.Fingerprint, ID: f.ID, SubmissionID: submission})
	}
	return ours, refs
}

func (s *sweeping) file(ctx context.Context, f batch.ListedFile, ref ObjectRef, st Standing) error {
	if job, _, _ := s.id.fileOf(f.Name); job == probeJob {
		if !f.Created.IsZero() && s.now.Sub(f.Created) < s.r.Settings.SendWithin {
			return nil // its maker deletes it
		}
		return s.inv.DeleteFile(ctx, f.ID)
	}
	switch v, why := judgeFile(st, f.ID); v {
	case sweepUnknown:
		if s.used[f.ID] {
			return nil // its job was judged, and the file goes with it
		}
		return s.unknown(ctx, "file "+f.ID)
	case sweepSurplus:
		return s.deleteFile(ctx, ref, st, why)
	}
	return nil
}

func (s *sweeping) deleteFile(ctx context.Context, ref ObjectRef, st Standing, why string) error {
	if err := s.note(ctx, ref, st, why); err != nil {
		return err
	}
	if err := s.inv.DeleteFile(ctx, ref.ID); err != nil {
		return err
	}
	// The file is gone. If the process dies here, it is in no later list.
	s.r.step(crashpoint.SweepDeleted)
	s.tally.Moved++
	return s.r.Store.MarkGone(ctx, s.now, ref.Account, ref.Kind, ref.ID)
}

// note opens the finding about a surplus object, before anything is done to it.
func (s *sweeping) note(ctx context.Context, ref ObjectRef, st Standing, why string) error {
	if st.NotedSurplus {
		return nil
	}
	kind := EventSurplusFile
	if ref.Kind == ObjectJob {
		kind = EventSurplusJob
	}
	submission := cmp.Or(st.SubmissionID, ref.SubmissionID) // a recovery knows it by the name of its file only
	e := kind.event("submission:"+submission, fmt.Sprintf("%s %s at account %s: %s", ref.Kind, ref.ID, s.account.Name, why))
	s.r.logEvents(e)
	// It is noted, and nothing was done. If the process dies here, the next run does it.
	defer s.r.step(crashpoint.SweepNoted)
	return s.r.Store.NoteSurplus(ctx, s.now, Surplus{Account: ref.Account, Kind: ref.Kind, ID: ref.ID, SubmissionID: submission, Why: why}, e)
}

// unknown stops dispatch: an account that knows more than the ledger means that
// the ledger was put back, and what it takes for unsent may have been sent.
func (s *sweeping) unknown(ctx context.Context, what string) error {
	s.tally.Failed++
	return s.r.rewound(ctx, s.now, fmt.Sprintf("account %s holds %s of a submission that the ledger does not know", s.account.Name, what))
}
