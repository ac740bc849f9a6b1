package sql

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
)

//go:embed query/database_role.postgres.sql
var databaseRolePostgresSQL string

//go:embed query/database_role.sqlite.sql
var databaseRoleSQLiteSQL string

// ErrReadOnly: the database can be reached and takes no writes.
var ErrReadOnly = errors.New("the database takes no writes: it is a standby, or set to read only")

// CheckRole asks the database whether it takes writes. It writes nothing. nil,
// ErrReadOnly, or that it cannot be reached.
func (s *Store) CheckRole(ctx context.Context) error {
	query := databaseRolePostgresSQL
	if s.dialect != postgres {
		query = databaseRoleSQLiteSQL
	}
	var writes int
	if err := s.ro.GetContext(ctx, &writes, query); err != nil {
		return fmt.Errorf("ask %s for its role: %w", s.name, scrub(err))
	}
	if writes == 0 {
		return fmt.Errorf("%s: %w", s.name, ErrReadOnly)
	}
	return nil
}
