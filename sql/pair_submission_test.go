package sql_test

import (
	"fmt"
	"testing"
	"time"

	"rollcall/reconcile"
)

// What may become of submission s1 of job j.
var (
	upload = func(q *planner) error {
		return q.RecordUpload(q.t.Context(), reconcile.Upload{SubmissionID: "s1", FileID: "f1", Bytes: 9, BodyMAC: "m"})
	}
	acceptJob = func(q *planner) error {
		return q.RecordAccepted(q.t.Context(), q.Clock.Now(),
			reconcile.Acceptance{SubmissionID: "s1", ProviderJobID: "batch_1", Status: "validating", NextPoll: q.Clock.Now()})
	}
	closeUnsent = func(q *planner) error {
		_, err := q.CloseUnsent(q.t.Context(), q.Clock.Now(), q.Clock.Now(), "", "nothing was asked for", 9)
		return err
	}
	findAbsent = func(q *planner) error {
		return q.RecordAbsent(q.t.Context(), q.Clock.Now(),
			reconcile.Absence{SubmissionID: "s1", Evidence: "no list shows it", NextSubmit: q.Clock.Now().Add(time.Minute)})
	}
	refuse = func(q *planner) error {
		return q.RecordRejected(q.t.Context(), q.Clock.Now(), reconcile.Rejection{SubmissionID: "s1", Evidence: "the send deadline has passed", NextSubmit: q.Clock.Now()})
	}
	look = func(q *planner) error {
		return q.RecordLook(q.t.Context(), reconcile.Look{SubmissionID: "s1", At: q.Clock.Now(), Next: q.Clock.Now().Add(time.Minute)})
	}
	fenceOff = func(q *planner) error {
		return q.RecordFence(q.t.Context(), q.Clock.Now(), "s1", q.Clock.Now().Add(time.Minute))
	}
)

// TestF15_SenderMeetsItsResolver: a submission is closed as absent or its
// sender goes on, never both. The sender is two minutes late.
func TestF15_SenderMeetsItsResolver(t *testing.T) {
	const late = 2 * time.Minute
	all := map[string]func(p *planner) meeting{}
	for name, m := range map[string]struct {
		first, second func(q *planner) error
		waits         string
		refused       error
		submission    string // its outcome, and what is noted on it
		job           string // its state, and in how many minutes from the start it may be sent
	}{
		"closed as unsent first, then uploaded": {closeUnsent, upload, "UPDATE submissions", reconcile.ErrMoved, "proven_absent", "ready 2"},
		"uploaded first, and not unsent":        {upload, closeUnsent, "UPDATE submissions", nil, "open f1", "ready 0"},
		"closed as unsent first, then accepted": {closeUnsent, acceptJob, "FROM jobs", reconcile.ErrMoved, "proven_absent", "ready 2"},
		"accepted first, and not unsent":        {acceptJob, closeUnsent, "FROM jobs", nil, "accepted", "submitted"},
		"proven absent first, then accepted":    {findAbsent, acceptJob, "FROM jobs", reconcile.ErrMoved, "proven_absent", "ready 3"},
		"accepted first, and not absent":        {acceptJob, findAbsent, "FROM jobs", reconcile.ErrMoved, "accepted", "submitted"},
		// Whoever looks may repeat the create under its key.
		"looked for first, and not refused any more": {look, refuse, "UPDATE submissions", reconcile.ErrMoved, "open", "ready 0"},
		"refused first, then not looked for":         {refuse, look, "UPDATE submissions", reconcile.ErrMoved, "rejected", "ready 2"},
		// A create that had arrived before its input file was deleted is a job.
		"fenced first, and accepted all the same": {fenceOff, acceptJob, "UPDATE submissions", nil, "accepted fenced", "submitted"},
		"accepted first, then not fenced":         {acceptJob, fenceOff, "UPDATE submissions", reconcile.ErrMoved, "accepted", "submitted"},
	} {
		all[name] = func(p *planner) meeting {
			p.readyJob("a")
			p.mustIntent("s1")
			p.Clock.Advance(late)
			return meeting{first: m.first, second: m.second, waits: m.waits, refused: m.refused, then: func() {
				p.want("["+m.submission+"]", `SELECT COALESCE(outcome, 'open') || COALESCE(' ' || input_file_id, '')
					|| CASE WHEN fenced_us IS NULL THEN '' ELSE ' fenced' END FROM submissions`)
				p.want("["+m.job+"]", fmt.Sprintf("SELECT state || COALESCE(' ' || CAST((next_submit_us - %d) / %d AS TEXT), '') FROM jobs", startUS, minute))
			}}
		}
	}
	meetings(t, all)
}

// TestF47_AdoptionMeetsIntent: a job that the provider holds takes over what an
// unsent job was to send, or leaves that job alone once it is being sent.
func TestF47_AdoptionMeetsIntent(t *testing.T) {
	adopt := func(q *planner) error {
		_, err := q.AdoptJob(q.t.Context(), q.Clock.Now(), reconcile.Adoption{Account: "fp", ProviderJobID: "batch_old", Status: "completed",
			Created: q.Clock.Now(), JobID: "old", SubmissionID: "s-old", Manifest: "m", FileID: "f", Works: []string{"a"}})
		return err
	}
	intent := func(q *planner) error {
		_, _, err := q.intent("s1")
		return err
	}
	const jobs = "SELECT job_id || ' ' || state FROM jobs ORDER BY job_id"
	const members = "SELECT job_id || ' ' || work_id || ' ' || COALESCE(outcome, 'open') FROM items ORDER BY job_id, position"
	meetings(t, map[string]func(p *planner) meeting{
		"the adoption first": func(p *planner) meeting {
			p.readyJob("a", "b")
			return meeting{
				first: adopt, second: intent, waits: "FROM jobs", refused: reconcile.ErrMoved,
				then: func() {
					p.want("[j abandoned old submitted]", jobs)
					p.want("[j a not_sent j b not_sent old a open]", members)
					p.want("[s-old]", "SELECT submission_id FROM submissions")
				},
			}
		},
		"the intent first": func(p *planner) meeting {
			p.readyJob("a", "b")
			var refused error // of one that comes later: it finds no unsent job
			if p.postgres {
				refused = reconcile.ErrMoved
			}
			return meeting{
				first: intent, second: adopt, waits: "FROM jobs", refused: refused,
				then: func() {
					p.want("[j ready]", jobs)
					p.want("[j a open j b open]", members)
					p.want("[s1]", "SELECT submission_id FROM submissions")
				},
			}
		},
	})
}
