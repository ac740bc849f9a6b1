package sql

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/go-json-experiment/json"
)

//go:embed query/audit_insert.sql
var auditInsertSQL string

//go:embed query/audit_find.sql
var auditFindSQL string

//go:embed query/audit_high.sql
var auditHighSQL string

//go:embed query/audit_missing.postgres.sql
var auditMissingPostgresSQL string

//go:embed query/audit_missing.sqlite.sql
var auditMissingSQLiteSQL string

//go:embed query/submission_missing.postgres.sql
var submissionMissingPostgresSQL string

//go:embed query/submission_missing.sqlite.sql
var submissionMissingSQLiteSQL string

// MissingTokens gives those of the tokens, which Options.Committed was told,
// that the ledger does not have: their transactions were acknowledged and are
// gone, after a fail-over or a restore. It only reads, in no particular order,
// and asks for all tokens in one statement: give it some thousands at most.
func (s *Store) MissingTokens(ctx context.Context, tokens []string) ([]string, error) {
	return s.missing(ctx, "missing tokens", auditMissingPostgresSQL, auditMissingSQLiteSQL, tokens)
}

// MissingSubmissions gives those of the submissions that the ledger does not
// have, likewise.
func (s *Store) MissingSubmissions(ctx context.Context, ids []string) ([]string, error) {
	return s.missing(ctx, "missing submissions", submissionMissingPostgresSQL, submissionMissingSQLiteSQL, ids)
}

// missing asks for a whole list in one statement, as JSON.
func (s *Store) missing(ctx context.Context, what, onPostgres, onSQLite string, list []string) ([]string, error) {
	if len(list) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(list)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	query := onPostgres
	if s.dialect != postgres {
		query = onSQLite
	}
	var missing []string
	if err := s.ro.SelectContext(ctx, &missing, query, string(text)); err != nil {
		return nil, fmt.Errorf("%s: %w", what, scrub(err))
	}
	return missing, nil
}

// AuditHigh is the number of the newest audit event, 0 in a new ledger. It
// never falls, so a ledger that has a lower one than was seen before is an
// older copy. The numbers have gaps.
func (s *Store) AuditHigh(ctx context.Context) (int64, error) {
	var high int64
	if err := s.ro.GetContext(ctx, &high, auditHighSQL); err != nil {
		return 0, fmt.Errorf("newest audit event: %w", scrub(err))
	}
	return high, nil
}
