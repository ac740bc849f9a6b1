package simulation

import (
	"context"
	"fmt"
	"strings"

	"rollcall/reconcile"
	"rollcall/reconcile/source"
)

// delivery is one report as its source sends it.
type delivery struct {
	system, id string
	revision   int64
	text       string
}

func (d delivery) String() string { return fmt.Sprintf("%s %s/%d", d.system, d.id, d.revision) }

// sender is the source systems: they send what has no receipt yet, in any order,
// some of it again and again.
type sender struct {
	w     *world
	all   []delivery
	queue []delivery
}

func newSender(w *world) *sender {
	s := &sender{w: w}
	for i := range w.Reports {
		d := delivery{system: "forum", id: fmt.Sprintf("r-%d", i), revision: 1}
		if w.Faults[heldSource] && i%10 == 9 {
			d.system = "blog"
			w.struck[heldSource]++
		}
		d.text = textOf(d, "")
		s.all = append(s.all, d)
		for w.strikes(edited, d.String()) {
			d.revision++
			d.text = textOf(d, "")
			s.all = append(s.all, d)
		}
		if w.strikes(contradicted, d.String()) {
			d.text = textOf(d, "otherwise")
			s.all = append(s.all, d)
		}
	}
	s.queue = append(s.queue, s.all...)
	for _, d := range s.all {
		w.oracle.expects(d)
	}
	for i := range s.queue {
		// Whether one comes late by it shows when it is delivered.
		if j := i + w.rng.IntN(12); j < len(s.queue) && w.draws(lateRevision) {
			s.queue[i], s.queue[j] = s.queue[j], s.queue[i]
		}
	}
	return s
}

// textOf is the text of a report. Its words choose the right answer to it.
func textOf(d delivery, more string) string {
	return fmt.Sprintf("text %s %s/%d %s end", d.system, d.id, d.revision, more)
}

// waits says whether there is something left to send.
func (s *sender) waits() bool { return len(s.queue) > 0 }

// again sends everything once more, as sources do after a ledger was put back.
func (s *sender) again() { s.queue = append([]delivery{}, s.all...) }

// deliver has a process take some deliveries in. What gets no receipt is sent again.
func (s *sender) deliver(ctx context.Context, p *process) (moved bool, err error) {
	n := min(1+s.w.rng.IntN(9), len(s.queue))
	sent := s.queue[:n:n]
	s.queue = s.queue[n:]
	var lines strings.Builder
	for _, d := range sent {
		s.w.oracle.offers(d)
		fmt.Fprintf(&lines, `{"tenant":"acme","system":%q,"id":%q,"revision":%d,"text":%q}`+"\n", d.system, d.id, d.revision, d.text)
	}
	in, err := source.NewReader(strings.NewReader(lines.String()), source.JSONL, source.DefaultMapping(), source.Limits{})
	if err != nil {
		return false, err
	}
	answered := map[int]bool{}
	rules := func(string, string) (reconcile.SourceRules, bool) { return reconcile.SourceRules{}, true }
	_, err = p.r.Intake(ctx, in, rules, func(o reconcile.Outcome) {
		if p.dead { // nobody hears it
			return
		}
		if o.Refused != nil {
			s.w.oracle.breach("a good line is refused: %v", o.Refused)
			return
		}
		d := sent[o.Receipt.Line-1]
		answered[o.Receipt.Line-1] = true
		s.w.oracle.receipt(d, o.Receipt)
		if s.w.strikes(delivery2, d.String()) {
			s.queue = append(s.queue, d)
		}
	})
	for i, d := range sent {
		if !answered[i] {
			s.queue = append(s.queue, d)
		}
	}
	return len(answered) > 0, err
}
