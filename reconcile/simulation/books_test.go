package simulation

import stdsql "database/sql"

// books are a reader's view of the ledger's file. It counts some ten thousand
// times in a world, so what counts is prepared.
type books struct {
	*stdsql.DB
	counts map[string]*stdsql.Stmt
}

func openBooks(path string) (*books, error) {
	db, err := stdsql.Open("sqlite", path+"?_pragma=query_only(1)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return &books{db, map[string]*stdsql.Stmt{}}, nil
}

func (b *books) count(query string, args ...any) (n int, err error) {
	s := b.counts[query]
	if s == nil {
		if s, err = b.Prepare(query); err != nil {
			return 0, err
		}
		b.counts[query] = s // closed with the connection
	}
	err = s.QueryRow(args...).Scan(&n)
	return n, err
}
