package sql

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"rollcall/batch"
	"rollcall/reconcile"
)

//go:embed query/set_count_staging.sql
var setCountStagingSQL string

//go:embed query/judge_members.sql
var judgeMembersSQL string

//go:embed query/judge_lines.sql
var judgeLinesSQL string

//go:embed query/judge_earlier.sql
var judgeEarlierSQL string

//go:embed query/judge_lock_works.sql
var judgeLockWorksSQL string

//go:embed query/judge_late.sql
var judgeLateSQL string

//go:embed query/judge_items.sql
var judgeItemsSQL string

//go:embed query/judge_lines_done.sql
var judgeLinesDoneSQL string

//go:embed query/judge_works.sql
var judgeWorksSQL string

//go:embed query/artifact_insert.sql
var artifactInsertSQL string

//go:embed query/judge_finish_job.sql
var judgeFinishJobSQL string

// JudgeItems implements reconcile.ConsumeStore.
func (s *Store) JudgeItems(ctx context.Context, now time.Time, jobID string, after int64, limit int, judge func(reconcile.ItemFacts) reconcile.Ruling) (reconcile.JudgedChunk, error) {
	var chunk reconcile.JudgedChunk
	err := s.write(ctx, "judge items", func(ctx context.Context, t *tx) error {
		chunk = reconcile.JudgedChunk{Outcomes: map[reconcile.ItemOutcome]int64{}, After: after}
		classifier, err := t.readyToJudge(ctx, jobID)
		if err != nil {
			return err
		}
		members, err := t.itemFacts(ctx, jobID, after, limit)
		if err != nil {
			return err
		}
		chunk.Done = len(members) < limit
		if len(members) == 0 {
			return nil
		}
		chunk.After = members[len(members)-1].Position
		rulings := make([]ruling, 0, len(members))
		for _, m := range members {
			r := ruling{m.facts.WorkID, judge(m.facts)}
			chunk.Outcomes[r.Outcome]++
			rulings = append(rulings, r)
		}
		if chunk.Late, err = t.writeRulings(ctx, now, jobID, classifier, rulings); err != nil {
			return err
		}
		if err := t.openFindings(ctx, now, chunk.Events(jobID)); err != nil {
			return err
		}
		t.audit("items_judged", "job:"+jobID, fmt.Sprintf("positions %d to %d: %s", after+1, chunk.After, outcomeCounts(chunk.Outcomes)))
		return nil
	})
	if err != nil {
		return reconcile.JudgedChunk{}, err
	}
	return chunk, nil
}

// readyToJudge locks a job of which no result set is still to be read, and
// gives the name of its classifier.
func (t *tx) readyToJudge(ctx context.Context, jobID string) (classifier string, err error) {
	job, err := t.lockJob(ctx, jobID, reconcile.JobEnded)
	if err != nil {
		return "", err
	}
	var staging int
	if err := t.GetContext(ctx, &staging, setCountStagingSQL, jobID); err != nil {
		return "", err
	}
	if staging > 0 {
		return "", fmt.Errorf("job %s has %d result sets to be read: %w", jobID, staging, reconcile.ErrMoved)
	}
	var row policyRow
	if err := t.GetContext(ctx, &row, policyGetSQL, job.Policy.ID, job.Policy.Version); err != nil {
		return "", err
	}
	policy, err := row.version()
	return policy.Classifier.Name, err
}

// member is a member of a job that is to be judged.
type member struct {
	Position int64  `db:"position"`
	WorkID   string `db:"work_id"`
	facts    reconcile.ItemFacts
}

type factRow struct {
	WorkID  string `db:"work_id"`
	Channel string `db:"channel"`
	Line    int64  `db:"line"`
	LineMAC string `db:"line_mac"`
	Outcome string `db:"outcome"`
	Code    string `db:"code"`
	Input   int64  `db:"input_tokens"`
	Output  int64  `db:"output_tokens"`
}

type earlierRow struct {
	WorkID  string `db:"work_id"`
	Outcome string `db:"outcome"`
	Times   int64  `db:"times"`
}

// itemFacts reads what adjudication needs about the next members of a job.
func (t *tx) itemFacts(ctx context.Context, jobID string, after int64, limit int) ([]member, error) {
	var members []member
	if err := t.SelectContext(ctx, &members, judgeMembersSQL, jobID, after, limit); err != nil || len(members) == 0 {
		return nil, err
	}
	at := make(map[string]*reconcile.ItemFacts, len(members))
	for i := range members {
		members[i].facts.WorkID = members[i].WorkID
		at[members[i].WorkID] = &members[i].facts
	}
	last := members[len(members)-1].Position
	var lines []factRow
	if err := t.SelectContext(ctx, &lines, judgeLinesSQL, jobID, after, last); err != nil {
		return nil, err
	}
	for _, l := range lines {
		f := at[l.WorkID]
		f.Lines = append(f.Lines, reconcile.LineFact{Channel: batch.Channel(l.Channel), Line: l.Line, LineMAC: l.LineMAC,
			Outcome: reconcile.ItemOutcome(l.Outcome), Code: l.Code, InputTokens: l.Input, OutputTokens: l.Output})
	}
	var earlier []earlierRow
	if err := t.SelectContext(ctx, &earlier, judgeEarlierSQL, jobID, after, last); err != nil {
		return nil, err
	}
	for _, e := range earlier {
		f := at[e.WorkID]
		switch o := reconcile.ItemOutcome(e.Outcome); {
		case o.UsesAttempt():
			f.Counted += e.Times
		case o.UsesRun():
			f.Uncounted += e.Times
		}
	}
	return members, nil
}

type ruling struct {
	workID string
	reconcile.Ruling
}

const rulingColumns = "work_id TEXT PRIMARY KEY, outcome TEXT, code TEXT, channel TEXT, line BIGINT, rest TEXT, stage TEXT, reason TEXT, eligible_us BIGINT, cost BIGINT"

// row is a ruling as the statements of writeRulings read it.
func (r ruling) row(now time.Time) []any {
	var channel, reason *string
	var line, eligible *int64
	stage := reconcile.StageExtracted
	if r.Accepted != nil {
		c := string(r.Accepted.Channel)
		channel, line = &c, &r.Accepted.Line
	} else if r.Reason != "" {
		reason = nullIfEmpty(string(r.Reason))
	} else {
		stage, eligible = reconcile.StagePending, microsOrNull(now.Add(r.RetryAfter))
	}
	return []any{r.workID, string(r.Outcome), r.Code, channel, line, string(r.Rest), string(stage), reason, eligible, r.cost()}
}

// writeRulings writes what was decided about a chunk. It returns the reports
// that were given to a person before their artifact came.
func (t *tx) writeRulings(ctx context.Context, now time.Time, jobID, classifier string, rulings []ruling) (late []string, err error) {
	d := t.store.dialect
	if err := d.temporary(ctx, t.Tx, "rulings", rulingColumns); err != nil {
		return nil, err
	}
	columns := []string{"work_id", "outcome", "code", "channel", "line", "rest", "stage", "reason", "eligible_us", "cost"}
	if err := d.load(ctx, t.Tx, "rulings", columns, len(rulings), func(i int) []any { return rulings[i].row(now) }); err != nil {
		return nil, err
	}
	if err := t.lockRows(ctx, forUpdate, judgeLockWorksSQL); err != nil {
		return nil, err
	}
	if err := t.SelectContext(ctx, &late, judgeLateSQL); err != nil {
		return nil, err
	}
	for _, step := range []struct {
		name, query string
		args        []any
	}{
		{"items", judgeItemsSQL, []any{micros(now), jobID}},
		{"artifacts", artifactInsertSQL, []any{classifier, micros(now), jobID}},
		{"lines", judgeLinesDoneSQL, []any{jobID}},
		{"works", judgeWorksSQL, nil},
	} {
		if _, err := t.ExecContext(ctx, step.query, step.args...); err != nil {
			return nil, fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return late, t.charge(ctx, jobID, rulings)
}

// outcomeCounts is "failed 3, succeeded 12".
func outcomeCounts(counts map[reconcile.ItemOutcome]int64) string {
	var parts []string
	for _, o := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", o, counts[o]))
	}
	return strings.Join(parts, ", ")
}

// FinishJob implements reconcile.ConsumeStore.
func (s *Store) FinishJob(ctx context.Context, now time.Time, jobID string) error {
	return s.write(ctx, "finish job", func(ctx context.Context, t *tx) error {
		if err := changedOne(t.ExecContext(ctx, judgeFinishJobSQL, micros(now), jobID)); err != nil {
			return fmt.Errorf("job %s: %w", jobID, err)
		}
		t.audit("job_consumed", "job:"+jobID, "")
		return nil
	})
}
