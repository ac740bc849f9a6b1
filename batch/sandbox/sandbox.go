package sandbox

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/rs/zerolog"

	"rollcall/batch/infrai"
)

// Options says how a sandbox behaves. Only Dir is required.
type Options struct {
	// Dir holds the state. One process at a time may use it.
	Dir string
	// Speed is how many times faster than the real clock time runs; 0 is 1.
	Speed float64
	// Now is the real clock; nil is time.Now.
	Now func() time.Time
	// Seed makes ids and the order of results reproducible. 0 takes the seed
	// in Dir, or draws one.
	Seed uint64
	// Latencies are for jobs that are created from now on.
	Latencies Latencies
	// Keys gives the project of each API key. When it is empty every key is
	// accepted and is a project of its own.
	Keys map[string]string
	// Flavour is whose service it is like; "" is OpenAI's.
	Flavour Flavour
	// Faults are set at the start. nil keeps those that are in Dir.
	Faults []Fault
	// Infrai is what that API is served by; nil serves what is documented of it.
	Infrai *infrai.Pin
	// Log receives ids and counts.
	Log zerolog.Logger
}

// Latencies are how long the phases of a job take in virtual time. Zero is the
// default: 5 s, 60 s, 5 s and 2 s.
type Latencies struct {
	Validating, Running, Finalizing, Cancelling time.Duration
}

func (l Latencies) orDefault() Latencies {
	for _, p := range []struct {
		d   *time.Duration
		def time.Duration
	}{{&l.Validating, 5 * time.Second}, {&l.Running, time.Minute}, {&l.Finalizing, 5 * time.Second}, {&l.Cancelling, 2 * time.Second}} {
		if *p.d <= 0 {
			*p.d = p.def
		}
	}
	return l
}

// Server is a sandbox. Its methods may be used by several goroutines.
type Server struct {
	disk      disk
	lock      *flock.Flock
	clock     *clock
	ids       *idSource
	latencies Latencies
	keys      map[string]string
	flavour   Flavour
	faults    faultSet
	infrai    infraiBox
	requests  requestCount
	grants    grants
	quota     quotaUse
	log       zerolog.Logger
	mux       *http.ServeMux
	closing   context.Context // done when Close is called
	close     context.CancelFunc
	closeOnce func() error

	// mu guards the maps and seq. A job's own lock may be held while mu is
	// taken, never the other way round.
	mu       sync.Mutex
	files    map[string]*file
	jobs     map[string]*job
	messages map[string]*messageBatch
	seq      int64
}

var _ http.Handler = (*Server)(nil)

// state is what is on disk beside files, jobs and faults.
type state struct {
	Seed  uint64      `json:"seed"`
	Epoch uint64      `json:"epoch"` // how often it was started; part of every id
	Clock *clockState `json:"clock"`
}

// New opens the sandbox in o.Dir, or makes a new one there.
func New(o Options) (*Server, error) {
	if o.Speed < 0 {
		return nil, fmt.Errorf("speed %v is negative", o.Speed)
	}
	if o.Flavour != FlavourOpenAI && o.Flavour != FlavourAzure {
		return nil, fmt.Errorf("flavour %q is not known; write %s, or nothing for OpenAI's", o.Flavour, FlavourAzure)
	}
	if o.Speed == 0 {
		o.Speed = 1
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	d, err := lockAndOpen(o.Dir)
	if err != nil {
		return nil, err
	}
	s := &Server{
		disk: d.disk, lock: d.lock, latencies: o.Latencies.orDefault(), keys: o.Keys, flavour: o.Flavour, log: o.Log,
		files: map[string]*file{}, jobs: map[string]*job{}, messages: map[string]*messageBatch{},
		requests: requestCount{n: map[string]int64{}},
	}
	if err := errors.Join(s.restore(o), s.openInfrai(o.Infrai)); err != nil {
		return nil, errors.Join(err, s.lock.Close())
	}
	s.closing, s.close = context.WithCancel(context.Background())
	s.closeOnce = sync.OnceValue(func() error {
		s.close()
		return errors.Join(s.saveState(), s.faults.flush(s.disk), s.lock.Close())
	})
	s.routes()
	s.log.Info().Int("files", len(s.files)).Int("jobs", len(s.jobs)+len(s.messages)).Msg("sandbox open")
	return s, nil
}

type lockedDisk struct {
	disk disk
	lock *flock.Flock
}

// lockAndOpen takes the lock before openDisk clears anything away.
func lockAndOpen(root string) (lockedDisk, error) {
	if root == "" {
		return lockedDisk{}, errors.New("sandbox needs a folder for its state")
	}
	if err := os.MkdirAll(root, 0o700); err != nil {
		return lockedDisk{}, fmt.Errorf("make state folder: %w", err)
	}
	d := disk{root: root}
	lock := flock.New(d.path("lock"))
	ok, err := lock.TryLock()
	if err != nil {
		return lockedDisk{}, fmt.Errorf("lock state folder: %w", err)
	}
	if !ok {
		return lockedDisk{}, fmt.Errorf("another sandbox is using %s", root)
	}
	if err := d.prepare(); err != nil {
		return lockedDisk{}, errors.Join(err, lock.Close())
	}
	return lockedDisk{d, lock}, nil
}

func (s *Server) restore(o Options) error {
	var st state
	if err := load(s.statePath(), &st); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if o.Seed != 0 {
		st.Seed = o.Seed
	}
	if st.Seed == 0 {
		st.Seed = drawSeed()
	}
	st.Epoch++
	if err := errors.Join(s.restoreFiles(), s.restoreJobs(), s.restoreMessages(), s.faults.restore(s.disk)); err != nil {
		return err
	}
	if o.Faults != nil {
		if err := s.faults.set(o.Faults); err != nil {
			return err
		}
	}
	s.clock = newClock(o.Now, o.Speed, st.Clock, s.newest())
	s.ids = &idSource{seed: st.Seed, epoch: st.Epoch}
	return errors.Join(s.saveState(), s.faults.flush(s.disk))
}

func (s *Server) statePath() string { return s.disk.path("state.json") }

func (s *Server) saveState() error {
	c := s.clock.state()
	return s.disk.save(s.statePath(), state{Seed: s.ids.seed, Epoch: s.ids.epoch, Clock: &c})
}

// newest is the latest instant of the stored objects: virtual time must not
// start before it, even when the real clock was put back.
func (s *Server) newest() time.Time {
	var t time.Time
	for _, f := range s.files {
		t = later(t, f.Created)
	}
	for _, j := range s.jobs {
		t = later(t, j.Created)
	}
	for _, b := range s.messages {
		t = later(t, b.Created)
	}
	return t
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Close ends answers that are being delayed and gives the folder back. Requests
// must have ended, or end soon; it may be called twice.
func (s *Server) Close() error { return s.closeOnce() }

// SetFaults replaces the faults. None clears them.
func (s *Server) SetFaults(faults ...Fault) error {
	if err := s.faults.set(faults); err != nil {
		return err
	}
	return s.faults.flush(s.disk)
}

// Now is the virtual time.
func (s *Server) Now() time.Time { return s.clock.now() }

// Advance puts virtual time forward by d.
func (s *Server) Advance(d time.Duration) error {
	if d < 0 {
		return errors.New("time does not go back")
	}
	s.clock.advance(d)
	return s.saveState()
}

func (s *Server) nextSeq() int64 {
	s.seq++
	return s.seq
}

func drawSeed() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:]) | 1
}
