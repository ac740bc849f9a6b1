package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/batch/anthropic"
	"rollcall/batch/contentsafety"
	"rollcall/batch/infrai"
	"rollcall/batch/inhouse"
	"rollcall/batch/openai"
	"rollcall/reconcile"
	"rollcall/reconcile/simulation"
)

// The README's table of processors is what the clients declare, cell by cell:
// whoever changes a capability must say so there.
func TestREADMETableIsWhatTheProcessorsDeclare(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(readme), "\n| processor |")
	if !ok {
		t.Fatal("README.md has no table of processors")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	_, table, _ = strings.Cut(table, "\n|---")
	_, table, _ = strings.Cut(table, "\n")
	var want []string
	for _, p := range declared(t) {
		want = append(want, p.row())
	}
	if got := strings.TrimSpace(table); got != strings.Join(want, "\n") {
		t.Errorf("README.md has\n%s\nand the clients declare\n%s", got, strings.Join(want, "\n"))
	}
}

// The simulation has a world for what each client declares; nothing is proven about
// any other combination.
func TestEveryProcessorHasAWorld(t *testing.T) {
	worlds := simulation.Processors()
	for _, p := range declared(t) {
		of := simulation.Processor{Settles: p.can.Settlement, Handover: p.can.Handover}
		if p.one {
			of.Handover = batch.HandoverInline // a call has its text with it
		}
		if !slices.Contains(worlds, of) || p.one != (of.Settles == batch.SettleByRepeat) {
			t.Errorf("%s is %s, and the simulation has no such world", p.name, of)
		}
	}
}

// declaration is what a client says of its processor.
type declaration struct {
	name string
	can  batch.Capabilities
	one  bool // a text a call
}

// declared are all processors, in the README's order.
func declared(t *testing.T) []declaration {
	t.Helper()
	key := func() string { return "key" }
	mac := []byte("0123456789abcdef")
	pin, err := os.ReadFile("../../batch/infrai/testdata/assumed.pin.json")
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := infrai.ParsePin(pin)
	if err != nil {
		t.Fatal(err)
	}
	must := func(c interface{ Capabilities() batch.Capabilities }, err error) batch.Capabilities {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return c.Capabilities()
	}
	shaped := func(name, base string, d openai.Dialect) batch.Capabilities {
		c, err := openai.New(openai.Config{Name: "a", Processor: name, BaseURL: base, Dialect: d, APIKey: key, FingerprintKey: mac})
		return must(c, err)
	}
	claude, err := anthropic.New(anthropic.Config{Name: "a", APIKey: key, FingerprintKey: mac})
	message := must(claude, err)
	through, err := infrai.New(infrai.Config{Name: "a", BaseURL: "http://127.0.0.1:1", AllowLoopback: true, Pin: &parsed, APIKey: key, FingerprintKey: mac})
	passed := must(through, err)
	safety, err := contentsafety.New(contentsafety.Config{Name: "a", BaseURL: "https://a.cognitiveservices.azure.com", Key: key, FingerprintKey: mac})
	graded := must(safety, err)
	own, err := inhouse.New(inhouse.Config{Name: "a", BaseURL: "http://10.20.0.7:8000/v1", PermittedRanges: ranges, FingerprintKey: mac})
	return []declaration{
		{name: "OpenAI", can: shaped("openai", "", openai.Dialect{})},
		{name: "Azure OpenAI", can: shaped("azure-openai", "https://a.openai.azure.com/openai/v1", openai.Azure)},
		{name: "Groq", can: shaped("groq", "https://api.groq.com/openai/v1", openai.Groq)},
		{name: "Anthropic", can: message},
		{name: "Infrai", can: passed},
		{name: "Azure AI Content Safety", can: graded, one: true},
		{name: "a server of your own", can: must(own, err), one: true},
	}
}

func (d declaration) row() string {
	settled := map[batch.Settlement]string{
		batch.SettleByListing:  "its list of jobs",
		batch.SettleByResults:  "the results of ended jobs",
		batch.SettleByKey:      fmt.Sprintf("the same request again, for %s", span(reconcile.RepeatWithin(d.can.Limits.KeyWindow))),
		batch.SettleByRepeat:   "asking again",
		batch.SettleByOperator: "an operator",
	}[d.can.Settlement]
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s |", d.name, settled, d.deletes(), d.limits(), d.lasts(), d.classes())
}

func (d declaration) deletes() string {
	var out []string
	for _, part := range []struct {
		deleted bool
		name    string
	}{{d.can.Deletion.Input, "request files"}, {d.can.Deletion.Results, "result files"}, {d.can.Deletion.Job, "ended jobs, whole"}} {
		if part.deleted {
			out = append(out, part.name)
		}
	}
	switch {
	case len(out) > 0:
		return strings.Join(out, ", ")
	case d.one:
		return "nothing is kept"
	}
	return "nothing"
}

func (d declaration) limits() string {
	if d.one {
		return "one text a call"
	}
	return fmt.Sprintf("%s texts, %g MB", thousands(d.can.Limits.Items), float64(d.can.Limits.Bytes)/1e6)
}

func (d declaration) lasts() string {
	switch {
	case d.can.ResultsFor > 0:
		return span(d.can.ResultsFor)
	case d.one:
		return "–"
	case d.can.Deletion.Results:
		return "as asked for"
	}
	return "no promise"
}

func (d declaration) classes() string {
	words := make([]string, len(d.can.Classes))
	for i, c := range d.can.Classes {
		words[i] = string(c)
	}
	return cmp.Or(strings.Join(words, ", "), "none")
}

// span is a duration in days, or hours.
func span(d time.Duration) string {
	if day := 24 * time.Hour; d >= 2*day && d%day == 0 {
		return fmt.Sprintf("%d days", d/day)
	}
	return fmt.Sprintf("%g hours", d.Hours())
}

func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}
