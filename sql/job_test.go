package sql_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"rollcall/reconcile"
)

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The states and moves of a job stand in the table of moves, in the schema's
// CHECK and in the statements. They must be the same.
func TestJobStatesAgree(t *testing.T) {
	var states []string
	for _, s := range reconcile.JobStates() {
		states = append(states, string(s))
	}
	check := regexp.MustCompile(`(?s)CREATE TABLE jobs \(.*?state TEXT NOT NULL CHECK \(state IN \((.*?)\)\)`)
	for _, d := range []string{"postgres", "sqlite"} {
		m := check.FindStringSubmatch(readFile(t, "migration/"+d+"/00001_ledger.sql"))
		if m == nil {
			t.Fatalf("%s: no CHECK on jobs.state", d)
		}
		if got := strings.Split(strings.ReplaceAll(m[1], "'", ""), ", "); !slices.Equal(got, states) {
			t.Errorf("%s: the CHECK has %v, the program %v", d, got, states)
		}
	}

	made := map[string]string{} // move → statement
	files, err := filepath.Glob("query/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("no statements: %v", err)
	}
	comment := regexp.MustCompile(`(?m)^--.*$`)
	move := regexp.MustCompile(`(?s)UPDATE jobs (?:AS \w+ )?SET (.*?)\bWHERE\b(.*)`)
	state := regexp.MustCompile(`\bstate = '(\w+)'`)
	for _, f := range files {
		m := move.FindStringSubmatch(comment.ReplaceAllString(readFile(t, f), ""))
		if m == nil {
			continue
		}
		from := state.FindStringSubmatch(m[2])
		if from == nil {
			t.Errorf("%s changes a job without naming the state that it leaves", f)
			continue
		}
		if to := state.FindStringSubmatch(m[1]); to != nil {
			made[from[1]+" → "+to[1]] = f
		}
	}
	for _, from := range states {
		for _, to := range states {
			name := from + " → " + to
			may, file := reconcile.MayMove(reconcile.JobState(from), reconcile.JobState(to)), made[name]
			switch {
			case file != "" && !may:
				t.Errorf("%s makes the move %s, which is not allowed", file, name)
			case file == "" && may && name != "planning → abandoned": // an operator's, by hand
				t.Errorf("no statement makes the move %s", name)
			}
		}
	}
}

func TestJobStatesInTheDatabase(t *testing.T) {
	eachPlanner(t, func(t *testing.T, p *planner) {
		for _, s := range reconcile.JobStates() {
			p.job("j-"+string(s), string(s), row{"boundary_id": p.policy.BoundaryID})
		}
		for name, set := range map[string]row{
			"an unknown state":               {"state": "lost"},
			"sent without the provider's id": {"state": "submitted", "account": "a", "next_poll_us": startUS},
			"sent without a next poll":       {"state": "submitted", "account": "a", "provider_job_id": "x"},
			"ready without a next try":       {"state": "ready"},
			"ready without members":          {"state": "ready", "next_submit_us": startUS, "item_count": 0},
			"planning with a next poll":      {"state": "abandoned", "next_poll_us": startUS},
			"a second planning job":          {"state": "planning"},
		} {
			set["boundary_id"], set["job_id"] = p.policy.BoundaryID, "odd"
			if p.tryInsert("jobs", set) == nil {
				t.Errorf("the database took %s", name)
			}
		}
	})
}

// What the passes ask for again and again must cost what is due, not what ever
// was: each question is answered from the partial index that holds the due rows
// in the order that is asked for.
func TestDueRowsAreReadFromTheirIndex(t *testing.T) {
	questions := map[string]struct {
		file, index string
		args        []any
	}{
		"due works":      {"work_due", "works_pending", []any{"p", 1, 0, 0, "", 0, 10}},
		"ready jobs":     {"job_list_ready", "jobs_ready", []any{0, 10}},
		"due polls":      {"job_list_due_poll", "jobs_submitted", []any{0, 0, 10}},
		"planning job":   {"job_planning", "jobs_one_planning", []any{"p", 1}},
		"loaded":         {"policy_loaded", "works_pending", []any{0}},
		"loaded, a plan": {"policy_loaded", "jobs_one_planning", []any{0}},
	}
	eachPlanner(t, func(t *testing.T, p *planner) {
		for name, q := range questions {
			text := readFile(t, "query/"+q.file+".sql")
			var plan []string
			if p.postgres {
				// On empty tables PostgreSQL reads them whole unless it is told not to.
				tx := p.db.MustBegin()
				for _, knob := range []string{"enable_seqscan", "enable_bitmapscan", "enable_sort"} {
					tx.MustExec("SET LOCAL " + knob + " = off")
				}
				if err := tx.Select(&plan, "EXPLAIN "+text, q.args...); err != nil {
					t.Fatal(err)
				}
				if err := tx.Rollback(); err != nil {
					t.Fatal(err)
				}
			} else {
				rows := []struct {
					ID, Parent, Notused int
					Detail              string
				}{}
				if err := p.db.Select(&rows, "EXPLAIN QUERY PLAN "+text, q.args...); err != nil {
					t.Fatal(err)
				}
				for _, r := range rows {
					plan = append(plan, r.Detail)
				}
			}
			shown := strings.Join(plan, "\n")
			if !strings.Contains(shown, q.index) {
				t.Errorf("%s does not use %s:\n%s", name, q.index, shown)
			}
			if sorts := strings.Contains(shown, "USE TEMP B-TREE") || strings.Contains(shown, "Sort"); sorts && q.file != "job_list_due_poll" && q.file != "policy_loaded" {
				t.Errorf("%s sorts what the index has in order:\n%s", name, shown)
			}
		}
	})
}
