package sql_test

import (
	"errors"
	"fmt"
	"testing"

	"rollcall/batch"
	"rollcall/reconcile"
)

// applyChunk is the side of a meeting that applies once.
func applyChunk(chunk *reconcile.AppliedChunk) func(q *planner) error {
	return func(q *planner) (err error) {
		*chunk, err = q.ApplyExtracted(q.t.Context(), q.Clock.Now(), 100, reconcile.Authority)
		return err
	}
}

const (
	recordsSQL = `SELECT work_id || ' ' || kind || CASE authoritative WHEN 1 THEN ' stands' ELSE ' history' END FROM review_records ORDER BY work_id`
	markersSQL = "SELECT work_id || ' ' || decision FROM processed_markers ORDER BY work_id"
)

// TestF40_ApplyMeetsApply: each work has one record and one marker, and of a
// report one record stands. Both sides are alike, so there is no other order.
func TestF40_ApplyMeetsApply(t *testing.T) {
	extracted := row{"stage": "extracted", "reason": "refused"}
	meetings(t, map[string]func(p *planner) meeting{
		"over the same works": func(p *planner) meeting {
			var first, second reconcile.AppliedChunk
			p.pending("a", extracted)
			p.pending("b", extracted)
			return meeting{
				first: applyChunk(&first), second: applyChunk(&second), waits: "FROM reports",
				then: func() {
					if first.Authoritative != 2 || second.Seen != 0 {
						p.t.Errorf("applied %+v and %+v", first, second)
					}
					p.want("[a unclassified stands b unclassified stands]", recordsSQL)
					p.want("[a authoritative b authoritative]", markersSQL)
				},
			}
		},
		"over two revisions of a report": func(p *planner) meeting {
			var first, second reconcile.AppliedChunk
			p.exec("UPDATE policy_versions SET authority = 'highest_applied'")
			p.report("r", 2)
			for n, disposition := range []string{"superseded", "live"} {
				p.insert("works", row{"work_id": fmt.Sprint("w", n+1), "report_id": "r", "revision": n + 1, "boundary_id": p.policy.BoundaryID,
					"disposition": disposition, "stage": "extracted", "reason": "refused"})
			}
			return meeting{
				first: applyChunk(&first), second: applyChunk(&second), waits: "FROM reports",
				then: func() {
					if first.Authoritative != 1 || second.Authoritative != 1 {
						p.t.Errorf("applied %+v and %+v", first, second)
					}
					p.want("[w1 unclassified history w2 unclassified stands]", recordsSQL)
					p.want("[w1 authoritative w2 authoritative]", markersSQL)
				},
			}
		},
	})
}

// TestPauseMeetsApply: once the pause has returned, nothing is applied any more.
func TestPauseMeetsApply(t *testing.T) {
	pause := func(q *planner) error {
		_, err := q.Pause(q.t.Context(), q.Clock.Now(), reconcile.Pause{Scope: "all", Stage: reconcile.PauseApply, Actor: "anna", Reason: "r"})
		return err
	}
	meetings(t, map[string]func(p *planner) meeting{
		"the pause first": func(p *planner) meeting {
			p.pending("a", row{"stage": "extracted", "reason": "refused"})
			return meeting{
				first: pause, second: applyChunk(&reconcile.AppliedChunk{}), waits: "FROM leases", refused: reconcile.ErrPaused,
				then: func() {
					p.want("[]", recordsSQL)
					p.want("[extracted]", "SELECT stage FROM works")
				},
			}
		},
		"apply first": func(p *planner) meeting {
			p.pending("a", row{"stage": "extracted", "reason": "refused"})
			var records []string
			return meeting{
				first: applyChunk(&reconcile.AppliedChunk{}),
				second: func(q *planner) error {
					if err := pause(q); err != nil {
						return err
					}
					return q.db.Select(&records, recordsSQL)
				},
				waits: "FROM leases",
				then: func() {
					if fmt.Sprint(records) != "[a unclassified stands]" {
						p.t.Errorf("records when the pause returned: %v", records)
					}
					p.pending("b", row{"stage": "extracted", "reason": "refused"})
					if err := applyChunk(&reconcile.AppliedChunk{})(p); !errors.Is(err, reconcile.ErrPaused) {
						p.t.Errorf("the next apply: %v", err)
					}
				},
			}
		},
	})
}

// TestOverdueMeetsResult: a report goes to a person without its answer, or with
// it, and has one record; an answer that came too late is kept and told.
func TestOverdueMeetsResult(t *testing.T) {
	// answered makes job j whose member a has its answer and is overdue.
	answered := func(p *planner) {
		boundary := row{"boundary_id": p.policy.BoundaryID}
		p.pending("a", row{"stage": "collected", "due_us": startUS})
		p.job("j", "ended", boundary)
		p.insert("items", row{"job_id": "j", "work_id": "a", "line": 1, "boundary_id": p.policy.BoundaryID})
		p.insert("result_sets", row{"job_id": "j", "state": "whole", "mac": "m", "line_count": 1})
		p.insert("result_lines", row{"job_id": "j", "work_id": "a", "outcome": "succeeded", "label": "ok", "evidence": "[]",
			"encrypted": []byte{1}, "key_id": "k", "payload_mac": "m"})
	}
	closeOverdue := func(closed *int) func(q *planner) error {
		return func(q *planner) (err error) {
			*closed, err = q.CloseOverdue(q.t.Context(), q.Clock.Now(), 9)
			return err
		}
	}
	judge := func(chunk *reconcile.JudgedChunk) func(q *planner) error {
		return func(q *planner) (err error) {
			*chunk, err = q.JudgeItems(q.t.Context(), q.Clock.Now(), "j", 0, 9, func(f reconcile.ItemFacts) reconcile.Ruling {
				return reconcile.Adjudicate(f, reconcile.Caps{Attempts: 1, Runs: 1}, batch.PhaseEnded)
			})
			return err
		}
	}
	meetings(t, map[string]func(p *planner) meeting{
		"the due time first": func(p *planner) meeting {
			answered(p)
			var closed int
			var chunk reconcile.JudgedChunk
			return meeting{
				first: closeOverdue(&closed), second: judge(&chunk), waits: "FROM works",
				then: func() {
					if closed != 1 || fmt.Sprint(chunk.Late) != "[r-a]" {
						p.t.Errorf("closed %d, late %v", closed, chunk.Late)
					}
					p.must(p.FinishJob(p.t.Context(), p.Clock.Now(), "j"))
					p.applyAll()
					p.want("[a unclassified stands]", recordsSQL)
					p.want("[a]", "SELECT work_id FROM artifacts")
					p.want("[late_result report:r-a]", "SELECT name || ' ' || subject FROM findings")
				},
			}
		},
		"the answer first": func(p *planner) meeting {
			answered(p)
			var closed int
			var chunk reconcile.JudgedChunk
			return meeting{
				first: judge(&chunk), second: closeOverdue(&closed), waits: "FROM works",
				then: func() {
					if closed != 0 || len(chunk.Late) > 0 {
						p.t.Errorf("closed %d, late %v", closed, chunk.Late)
					}
					p.must(p.FinishJob(p.t.Context(), p.Clock.Now(), "j"))
					p.applyAll()
					p.want("[a classified stands]", recordsSQL)
					p.want("[]", "SELECT name FROM findings")
				},
			}
		},
	})
}
