// Package witness remembers in a file, outside of the database and its backups,
// what the ledger must hold: which ledger it is, its generation, how far its audit
// had got, the last commits that were acknowledged, and the last intents to send.
//
// A database that is restored from a copy, or that lost commits in a fail-over,
// lacks some of that. It takes for unsent what was sent, so it is noticed here
// before anything leaves.
//
// The file holds ids, counts and times, never text. Several processes of one host
// may share it.
package witness

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gofrs/flock"

	"rollcall/reconcile"
)

const (
	keptIntents = 1000 // of the newest, in the file
	keptCommits = 64   // likewise
	heldCommits = 4096 // of this process, since the ledger was last compared
	lockWait    = 30 * time.Second
)

// Ledger is what the witness asks the ledger.
type Ledger interface {
	LedgerIdentity(ctx context.Context) (reconcile.LedgerIdentity, error)
	AuditHigh(ctx context.Context) (int64, error)
	MissingTokens(ctx context.Context, tokens []string) ([]string, error)
	MissingSubmissions(ctx context.Context, ids []string) ([]string, error)
}

// ErrOtherLedger: the file is about another ledger.
var ErrOtherLedger = errors.New("the witness file belongs to another ledger: is the database the right one? For a new deployment name another file")

// ErrDamaged: the file holds no witness. Whatever it held is not known any more.
var ErrDamaged = errors.New("is not a witness file, or is damaged: to begin anew after making sure that the ledger is the right one, move it away")

// record is what the file holds.
type record struct {
	LedgerID   string    `json:"ledger_id"`
	Generation int64     `json:"generation"`
	AuditHigh  int64     `json:"audit_high"`
	Commits    []string  `json:"commits"` // tokens of acknowledged transactions, oldest first
	Intents    []intent  `json:"intents"` // oldest first
	NotedAt    time.Time `json:"noted_at"`
}

type intent struct {
	SubmissionID string    `json:"submission_id"`
	JobID        string    `json:"job_id"`
	IntentAt     time.Time `json:"intent_at"`
}

// File is a witness file. It may be used by several goroutines.
type File struct {
	path   string
	ledger Ledger
	now    func() time.Time

	mu      sync.Mutex
	commits []commit // acknowledged to this process since the last comparison
}

// commit is an acknowledged transaction.
type commit struct {
	token      string
	generation int64 // of the ledger, as it wrote
}

var _ reconcile.Witness = (*File)(nil)

// New is the witness in a file, which need not exist yet. now is this process's
// clock; it is shown and decides nothing.
func New(path string, ledger Ledger, now func() time.Time) *File {
	return &File{path: path, ledger: ledger, now: now}
}

// Path is the file's name.
func (f *File) Path() string { return f.path }

// Committed remembers an acknowledged transaction until the next comparison. It
// is quick and fails never.
func (f *File) Committed(token string, generation int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.commits) == heldCommits { // the newest are those that a fail-over loses
		f.commits = slices.Delete(f.commits, 0, heldCommits/2)
	}
	f.commits = append(f.commits, commit{token, generation})
}

func (f *File) held() []commit {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.commits)
}

// forget drops what was held when the ledger was compared.
func (f *File) forget(compared []commit) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.commits = slices.DeleteFunc(f.commits, func(c commit) bool { return slices.Contains(compared, c) })
}

// tokensOf are those of the commits that a ledger of that generation must have.
// Another process may have recovered it since: of the life before nothing needs to
// be there.
func tokensOf(generation int64, commits []commit) (tokens []string) {
	for _, c := range commits {
		if c.generation >= generation {
			tokens = append(tokens, c.token)
		}
	}
	return tokens
}

// NoteIntent implements reconcile.Witness.
func (f *File) NoteIntent(ctx context.Context, id reconcile.LedgerIdentity, s reconcile.Submission) error {
	return f.update(ctx, func(r *record) error {
		if r.LedgerID != "" && r.LedgerID != id.LedgerID {
			return ErrOtherLedger
		}
		if id.Generation > r.Generation { // recovered from another host: see compare
			*r = record{}
		}
		r.LedgerID, r.Generation = id.LedgerID, max(r.Generation, id.Generation)
		r.Intents = slices.DeleteFunc(r.Intents, func(i intent) bool { return i.SubmissionID == s.ID })
		r.Intents = append(r.Intents, intent{SubmissionID: s.ID, JobID: s.JobID, IntentAt: s.IntentAt})
		for _, token := range newest(tokensOf(id.Generation, f.held()), keptCommits) {
			if !slices.Contains(r.Commits, token) {
				r.Commits = append(r.Commits, token)
			}
		}
		return nil
	})
}

// Compare implements reconcile.Witness.
func (f *File) Compare(ctx context.Context) (reconcile.Comparison, error) {
	r, err := f.read()
	if err != nil {
		return reconcile.Comparison{}, err
	}
	c, _, err := f.compare(ctx, r, f.held())
	return c, err
}

// compare asks the ledger for everything that is remembered of it.
func (f *File) compare(ctx context.Context, r record, held []commit) (c reconcile.Comparison, now record, err error) {
	id, err := f.ledger.LedgerIdentity(ctx)
	if err != nil {
		return c, now, err
	}
	if r.LedgerID != "" && r.LedgerID != id.LedgerID {
		return c, now, ErrOtherLedger
	}
	c = reconcile.Comparison{File: f.path, NotedAt: r.NotedAt, Generation: r.Generation, LedgerGeneration: id.Generation, AuditHigh: r.AuditHigh}
	if c.LedgerAuditHigh, err = f.ledger.AuditHigh(ctx); err != nil {
		return c, now, err
	}
	now = record{LedgerID: id.LedgerID, Generation: id.Generation, AuditHigh: c.LedgerAuditHigh}
	if id.Generation > r.Generation { // recovered from another host: what is remembered of the life before may be gone
		r.Commits, r.Intents = nil, nil
	}
	tokens := append(slices.Clone(r.Commits), tokensOf(id.Generation, held)...)
	if c.MissingCommits, err = f.ledger.MissingTokens(ctx, tokens); err != nil {
		return c, now, err
	}
	ids := make([]string, 0, len(r.Intents))
	for _, i := range r.Intents {
		ids = append(ids, i.SubmissionID)
	}
	if c.MissingIntents, err = f.ledger.MissingSubmissions(ctx, ids); err != nil {
		return c, now, err
	}
	now.Commits, now.Intents = tokens, r.Intents
	return c, now, nil
}

// Verify implements reconcile.Witness.
func (f *File) Verify(ctx context.Context) error {
	held := f.held()
	err := f.update(ctx, func(r *record) error {
		c, now, err := f.compare(ctx, *r, held)
		if err != nil {
			return err
		}
		if why := c.Rewound(); why != "" {
			return fmt.Errorf("%w: %s", reconcile.ErrRewound, why)
		}
		if r.Generation == now.Generation {
			now.AuditHigh = max(now.AuditHigh, r.AuditHigh)
		}
		*r = now
		return nil
	})
	if err == nil {
		f.forget(held)
	}
	return err
}

// Close remembers what was committed since the last comparison, if anything.
func (f *File) Close(ctx context.Context) error {
	if len(f.held()) == 0 {
		return nil
	}
	return f.Verify(ctx)
}

// Renew implements reconcile.Witness.
func (f *File) Renew(ctx context.Context) error {
	held := f.held()
	id, err := f.ledger.LedgerIdentity(ctx)
	if err != nil {
		return err
	}
	high, err := f.ledger.AuditHigh(ctx)
	if err != nil {
		return err
	}
	err = f.update(ctx, func(r *record) error {
		if r.LedgerID != "" && r.LedgerID != id.LedgerID {
			return ErrOtherLedger
		}
		*r = record{LedgerID: id.LedgerID, Generation: id.Generation, AuditHigh: high}
		return nil
	})
	if err == nil {
		f.forget(held)
	}
	return err
}

// read reads the file; a missing one is an empty record.
func (f *File) read() (record, error) {
	var r record
	data, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("witness: %w", err)
	}
	if err := json.Unmarshal(data, &r); err != nil || r.LedgerID == "" {
		return r, fmt.Errorf("witness: %s %w", f.path, ErrDamaged)
	}
	return r, nil
}

// update changes the file under a lock that other processes heed. The new one is
// on the disk before it takes the old one's place.
func (f *File) update(ctx context.Context, change func(*record) error) error {
	lock := flock.New(f.path + ".lock")
	waiting, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	if ok, err := lock.TryLockContext(waiting, 5*time.Millisecond); err != nil || !ok {
		return fmt.Errorf("witness: %s cannot be locked: %w", f.path, err)
	}
	defer func() { _ = lock.Unlock() }()
	r, err := f.read()
	if err != nil {
		return err
	}
	if err := change(&r); err != nil {
		return err
	}
	r.NotedAt = f.now().UTC()
	r.Intents = newest(r.Intents, keptIntents)
	r.Commits = newest(r.Commits, keptCommits)
	data, err := json.Marshal(r, jsontext.WithIndent(" "))
	if err != nil {
		return fmt.Errorf("witness: %w", err)
	}
	return replace(f.path, append(data, '\n'))
}

// CheckWritable finds out whether this user could change the file: it makes a new
// one beside it, as a change does, and takes it away.
func (f *File) CheckWritable() error {
	if lock, err := os.Open(f.path + ".lock"); err == nil {
		_ = lock.Close() // it was read
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("witness: %w", err)
	}
	temp, err := os.CreateTemp(filepath.Dir(f.path), filepath.Base(f.path)+".*")
	if err == nil {
		_, err = temp.WriteString("{}\n") // a full disk takes a name, and no content
		err = errors.Join(err, temp.Close(), os.Remove(temp.Name()))
	}
	return notWritten(f.path, err)
}

// notWritten names the file, and not the one beside it, which an operator would
// look for in vain, under another name each time.
func notWritten(path string, err error) error {
	if err == nil {
		return nil
	}
	if no := syscall.Errno(0); errors.As(err, &no) {
		err = no
	}
	return fmt.Errorf("witness: %s cannot be written: %w", path, err)
}

func newest[T any](all []T, n int) []T { return all[max(0, len(all)-n):] }

// replace puts data into a file, durably and at once.
func replace(path string, data []byte) (err error) {
	defer func() { err = notWritten(path, err) }()
	temp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temp.Name())
		}
	}()
	_, err = temp.Write(data)
	if err := errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return err
	}
	if err := os.Rename(temp.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
