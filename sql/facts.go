package sql

import (
	"context"
	_ "embed"
	"fmt"
	"time"
)

//go:embed query/server_facts.postgres.sql
var serverFactsSQL string

//go:embed query/server_standbys.postgres.sql
var serverStandbysSQL string

//go:embed query/server_timeline.postgres.sql
var serverTimelineSQL string

//go:embed query/file_facts.sqlite.sql
var fileFactsSQL string

// Facts are what an operator should know of the database.
type Facts struct {
	Dialect string       `json:"dialect"`          // "postgres" or "sqlite"
	Name    string       `json:"name"`             // the address without its password
	Server  *ServerFacts `json:"server,omitempty"` // of PostgreSQL
	File    *FileFacts   `json:"file,omitempty"`   // of SQLite
}

// ServerFacts are those of a PostgreSQL server.
type ServerFacts struct {
	Version  string `json:"version"`
	Standby  bool   `json:"standby"`   // it takes no writes
	ReadOnly bool   `json:"read_only"` // transactions are read-only unless they say otherwise
	Timeline string `json:"timeline"`  // empty on a standby, or where the server does not tell
	// Superuser says that the role may do anything on the server, which a
	// program's role should not.
	Superuser bool `json:"superuser" db:"superuser"`
	// SynchronousCommit and SynchronousStandbyNames say what a COMMIT waits for.
	SynchronousCommit       string `json:"synchronous_commit" db:"synchronous_commit"`
	SynchronousStandbyNames string `json:"synchronous_standby_names" db:"synchronous_standby_names"`
	// Standbys are connected now; a COMMIT waits for SynchronousStandbys of
	// them. Of HiddenStandbys this role may not know which they are.
	Standbys            int64 `json:"standbys" db:"connected"`
	SynchronousStandbys int64 `json:"synchronous_standbys" db:"synchronous"`
	HiddenStandbys      int64 `json:"hidden_standbys" db:"hidden"`
	// MaxConnections is the server's limit, for all its clients; PoolSize is
	// how many of them one process of ours takes.
	MaxConnections int64 `json:"max_connections" db:"max_connections"`
	PoolSize       int   `json:"pool_size"`
	// Pooler says that one server process serves several of our connections in
	// turn, as with a pooler in transaction mode.
	Pooler bool `json:"pooler"`
	// ClockAheadMS is by how many milliseconds the server's clock is ahead of
	// this process's.
	ClockAheadMS int64 `json:"clock_ahead_ms"`
	// Log is which statements and values the server writes to its log.
	Log LogFacts `json:"log"`
}

// LogFacts are the server's settings by which ids, and parts of rows, get into
// its log.
type LogFacts struct {
	Statement               string `json:"log_statement" db:"log_statement"`
	MinDurationStatement    string `json:"log_min_duration_statement" db:"log_min_duration_statement"`
	MinErrorStatement       string `json:"log_min_error_statement" db:"log_min_error_statement"`
	ErrorVerbosity          string `json:"log_error_verbosity" db:"log_error_verbosity"`
	ParameterMaxLength      string `json:"log_parameter_max_length" db:"log_parameter_max_length"`
	ParameterMaxLengthError string `json:"log_parameter_max_length_on_error" db:"log_parameter_max_length_on_error"`
}

// Leaks says how ids get into the server's log, and what keeps them out; it is
// empty when they do not. Texts are encrypted before the server has them.
func (l LogFacts) Leaks() []string {
	if l.ErrorVerbosity == "terse" { // which leaves out DETAIL and CONTEXT, where all of them stand
		return nil
	}
	// "DETAIL: Key (external_id)=(…) already exists."
	leaks := []string{"errors are logged with the key or the row that they are about: set log_error_verbosity = terse"}
	if logged := l.Statement == "mod" || l.Statement == "all" || l.MinDurationStatement != "-1"; logged && l.ParameterMaxLength != "0" {
		leaks = append(leaks, "statements are logged with their parameters: set log_parameter_max_length = 0")
	}
	if l.ParameterMaxLengthError != "0" {
		leaks = append(leaks, "statements that fail are logged with their parameters: set log_parameter_max_length_on_error = 0")
	}
	return leaks
}

// FileFacts are those of a SQLite file.
type FileFacts struct {
	Path        string `json:"path"`
	FileSystem  string `json:"file_system"` // such as "ext4"; empty where the system does not tell
	JournalMode string `json:"journal_mode"`
	Synchronous string `json:"synchronous"`
	ForeignKeys bool   `json:"foreign_keys"`
	FreeBytes   int64  `json:"free_bytes"` // -1 where the system does not tell
}

// Facts reads what `rollcall doctor` shows. It only reads, and works on a
// standby too.
func (s *Store) Facts(ctx context.Context) (Facts, error) {
	f := Facts{Dialect: string(s.dialect), Name: s.name}
	var err error
	if s.dialect == postgres {
		f.Server, err = s.serverFacts(ctx)
	} else {
		f.File, err = s.fileFacts(ctx)
	}
	if err != nil {
		return Facts{}, fmt.Errorf("facts of %s: %w", s.name, scrub(err))
	}
	return f, nil
}

func (s *Store) serverFacts(ctx context.Context) (*ServerFacts, error) {
	var st serverState
	before := time.Now()
	if err := s.ro.GetContext(ctx, &st, serverStateSQL); err != nil {
		return nil, err
	}
	// The server read its clock half-way through the call, as far as we know.
	here := before.Add(time.Since(before) / 2)
	f := &ServerFacts{Version: st.Shown, Standby: st.InRecovery, ReadOnly: st.ReadOnly, PoolSize: s.opts.MaxConns,
		ClockAheadMS: fromMicros(st.NowUS).Sub(here).Milliseconds()}
	if err := s.ro.GetContext(ctx, &struct {
		*ServerFacts
		*LogFacts
	}{f, &f.Log}, serverFactsSQL); err != nil {
		return nil, err
	}
	if err := s.ro.GetContext(ctx, f, serverStandbysSQL); err != nil {
		return nil, err
	}
	var err error
	if !f.Standby {
		if f.Timeline, err = s.Timeline(ctx); err != nil {
			return nil, err
		}
		f.Pooler, err = s.sharesBackends(ctx)
	}
	return f, err
}

func (s *Store) fileFacts(ctx context.Context) (*FileFacts, error) {
	var row struct {
		JournalMode string `db:"journal_mode"`
		Synchronous int    `db:"synchronous"`
		ForeignKeys bool   `db:"foreign_keys"`
	}
	if err := s.db.GetContext(ctx, &row, fileFactsSQL); err != nil {
		return nil, err
	}
	place, err := fileSystemOf(s.path, s.opts.fileSystem)
	if err != nil {
		return nil, err
	}
	names := []string{"off", "normal", "full", "extra"}
	return &FileFacts{Path: s.path, FileSystem: place.name, JournalMode: row.JournalMode, Synchronous: names[row.Synchronous],
		ForeignKeys: row.ForeignKeys, FreeBytes: place.free}, nil
}

// Timeline is the timeline of the server's write-ahead log, which changes at
// each promotion of a standby. It is empty on SQLite and on servers that do not
// tell, and ErrReadOnly on a standby.
func (s *Store) Timeline(ctx context.Context) (string, error) {
	if s.dialect != postgres {
		return "", nil
	}
	var timeline *string
	err := s.ro.GetContext(ctx, &timeline, serverTimelineSQL)
	switch {
	case hasCode(err, "0A000"), hasCode(err, "42501"): // a managed server without files of its own
		return "", nil
	case err != nil:
		return "", fmt.Errorf("timeline: %w", scrub(err))
	case timeline == nil:
		return "", fmt.Errorf("timeline: %w", ErrReadOnly)
	}
	return *timeline, nil
}
