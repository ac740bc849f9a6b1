package sandbox

import (
	"errors"
	"fmt"
	"os"
	"sync"
)

// faultSet is the faults that are set, with what is left of their times. It is
// on disk, so that a fault that has struck does not strike again after a restart.
type faultSet struct {
	mu    sync.Mutex
	armed []armed
	dirty bool
}

type armed struct {
	Fault Fault `json:"fault"`
	// Left is how often it may still strike; -1 is without limit.
	Left int64 `json:"left"`
}

func (s *faultSet) set(faults []Fault) error {
	var next []armed
	for _, f := range faults {
		if err := f.validate(); err != nil {
			return err
		}
		left := f.number("times")
		if left == 0 {
			left = -1
		}
		next = append(next, armed{f, left})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed, s.dirty = next, true
	return nil
}

func (s *faultSet) list() []armed {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]armed{}, s.armed...)
}

// take uses up one occurrence of the first fault that fits.
func (s *faultSet) take(fits func(Fault, spec) bool) (Fault, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.armed {
		if s.strike(i, fits) {
			return s.armed[i].Fault, true
		}
	}
	return Fault{}, false
}

// takeAll uses up one occurrence of every fault that fits.
func (s *faultSet) takeAll(fits func(Fault, spec) bool) []Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Fault
	for i := range s.armed {
		if s.strike(i, fits) {
			out = append(out, s.armed[i].Fault)
		}
	}
	return out
}

func (s *faultSet) strike(i int, fits func(Fault, spec) bool) bool {
	a := &s.armed[i]
	sp, _ := specOf(a.Fault.Name)
	if a.Left == 0 || !fits(a.Fault, sp) {
		return false
	}
	if a.Left > 0 {
		a.Left--
		s.dirty = true
	}
	return true
}

// onRequest takes the first fault of a stage that concerns an operation.
func (s *faultSet) onRequest(at stage, op string) (Fault, bool) {
	return s.take(func(f Fault, sp spec) bool {
		if sp.stage != at && !(at == afterActing && sp.stage == beforeActing && f.flag("acted")) {
			return false
		}
		if at == beforeActing && f.flag("acted") {
			return false
		}
		return sp.concerns(f, op)
	})
}

// onAnswer takes a fault that alters an answer, if it concerns an operation.
func (s *faultSet) onAnswer(name, op string) (Fault, bool) {
	return s.take(func(f Fault, sp spec) bool { return f.Name == name && sp.concerns(f, op) })
}

func (s spec) concerns(f Fault, op string) bool {
	want := s.op
	if want == "" {
		want = f.text("op")
	}
	return want == op || want == anyOp
}

func faultsPath(d disk) string { return d.path("faults.json") }

// flush stores the set if it changed since the last time.
func (s *faultSet) flush(d disk) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.dirty {
		return nil
	}
	if err := d.save(faultsPath(d), s.armed); err != nil {
		return err
	}
	s.dirty = false
	return nil
}

func (s *faultSet) restore(d disk) error {
	if err := load(faultsPath(d), &s.armed); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	for _, a := range s.armed {
		if err := a.Fault.validate(); err != nil {
			return fmt.Errorf("stored fault: %w", err)
		}
	}
	return nil
}
