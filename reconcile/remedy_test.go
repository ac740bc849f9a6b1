package reconcile_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/reconcile"
)

// commands are those that rollcall has, with the arguments that each must be
// told with, so that it can be copied.
var commands = map[string]string{
	"demo": "", "init": "", "migrate": "", "config check": "", "sandbox": "", "intake": `\S+`,
	"run": "(collect|resolve|submit|call|poll|consume|apply|sweep|check)", "check": "", "status": "", "explain": "ID", "jobs": "", "job show": `\S+`,
	"findings": "", "findings resolve": `ID --reason "…"`, "policy list": "", "policy approve": `NAME --reason "…"`,
	"pause":  `--scope \S+ --stage (intake|dispatch|poll|apply) --reason "…"`,
	"resume": `--scope \S+ --stage (intake|dispatch|poll|apply) --reason "…"`,
	"doctor": "", "recover": `--reason "…"`, "job inspect": `\S+`, "job resolve": `\S+`, "serve": "", "route": `ID --reason "…"`,
	"version": "", "completion": `\S+`,
}

// checkCommands fails unless each command in a sentence exists and is whole.
func checkCommands(t *testing.T, sentence string) {
	t.Helper()
	for _, rest := range strings.Split(sentence, "rollcall ")[1:] {
		if end := strings.IndexAny(rest, ";()"); end >= 0 {
			rest = rest[:end]
		}
		rest = strings.TrimSpace(rest)
		whole := func(name string) bool {
			return regexp.MustCompile("^" + strings.TrimSpace(name+" "+commands[name]) + "$").MatchString(rest)
		}
		if !slices.ContainsFunc(slices.Collect(maps.Keys(commands)), whole) {
			t.Errorf("nobody can run %q, in: %s", "rollcall "+rest, sentence)
		}
	}
}

func TestRemediesNameCommandsThatExist(t *testing.T) {
	for _, e := range reconcile.EventKinds() {
		t.Run(e.Name, func(t *testing.T) {
			checkCommands(t, e.Remedy)
			var ends string
			switch {
			case e.Name == "ledger_rewound":
				ends = `rollcall resume --scope all --stage dispatch --reason "…" (it closes this finding)`
			case e.Name == "budget_spent":
				ends = `rollcall resume --scope policy:NAME --stage dispatch --reason "…" (it closes this finding)`
			case slices.Contains(reconcile.BrakeKinds(), e):
				ends = `rollcall resume --scope account:NAME --stage dispatch --reason "…" (it closes this finding)`
			case e.Name == "witness_unusable":
				ends = "the finding closes by itself once the witness can be used again"
			case e.Name == "lane_closed":
				ends = "the finding closes by itself once the made-up text is answered"
			case e.Name == "job_not_sent":
				ends = "the finding closes by itself once a submission is accepted or the job is given up"
			default:
				ends = `then run: rollcall findings resolve ID --reason "…"`
			}
			if !strings.HasSuffix(e.Remedy, "; "+ends) && !strings.HasSuffix(e.Remedy, "; then run: "+ends) {
				t.Errorf("%q does not end with how the finding is closed: %s", e.Remedy, ends)
			}
		})
	}
	for _, inv := range reconcile.Invariants(time.Time{}, reconcile.DefaultSettings()) {
		t.Run(inv.Name, func(t *testing.T) { checkCommands(t, inv.Remedy) })
	}
}
