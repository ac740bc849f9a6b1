package sql

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"rollcall/reconcile"
)

//go:embed query/unreadable_lock.sql
var unreadableLockSQL string

//go:embed query/unreadable_close.sql
var unreadableCloseSQL string

// CloseUnreadable implements reconcile.SubmitStore.
func (s *Store) CloseUnreadable(ctx context.Context, now time.Time, jobID string, works []string) (reconcile.UnreadableWorks, error) {
	var closed reconcile.UnreadableWorks
	err := s.write(ctx, "close unreadable", func(ctx context.Context, t *tx) error {
		closed = nil
		if _, err := t.lockJob(ctx, jobID, reconcile.JobReady); err != nil {
			return err
		}
		if err := s.dialect.temporary(ctx, t.Tx, "unreadable_works", "work_id TEXT PRIMARY KEY"); err != nil {
			return err
		}
		if err := s.dialect.load(ctx, t.Tx, "unreadable_works", []string{"work_id"}, len(works), func(i int) []any { return []any{works[i]} }); err != nil {
			return err
		}
		if err := t.SelectContext(ctx, &closed, s.dialect.locked(unreadableLockSQL, forUpdate)); err != nil {
			return err
		}
		if err := t.changed(ctx, len(closed), unreadableCloseSQL); err != nil {
			return err
		}
		if err := t.openFindings(ctx, now, closed.Events(jobID)); err != nil {
			return err
		}
		t.audit("works_unreadable", "job:"+jobID, fmt.Sprintf("%d given to a person", len(closed)))
		return changedOne(t.ExecContext(ctx, jobDelaySubmitSQL, micros(now), jobID))
	})
	if err != nil {
		return nil, err
	}
	return closed, nil
}
