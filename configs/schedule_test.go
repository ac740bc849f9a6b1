package configs

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall/reconcile"
)

func TestLoadTellsMistakesOfSchedules(t *testing.T) {
	for name, want := range map[string][]string{
		"twice":          {":7:6: schedules[1].name: is also the name of schedules[0]"},
		"name":           {":6:6: schedules[0].name: must be a name of lower-case letters"},
		"pass":           {":6:58: schedules[0].passes[1]: must be one of: collect, ", ":6:74: schedules[0].passes[2]: stands twice"},
		"passes-missing": {":6:6: schedules[0].passes: is missing; name what is run, such as [submit, poll]"},
		"none":           {":5:1: schedules: is empty; leave it out for the default schedules"},
		"listen":         {`:5:9: serve.listen: must be host:port, such as 127.0.0.1:8099, or "" for none`},
		"late":           {":5:1: serve.late_after: is shorter than two heartbeats"},
		"time":           {":5:9: serve.heartbeat: must be longer than 0", ":5:23: serve.stop_within: must be longer than 0"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join("testdata", "schedule", name+".yaml")
			_, err := Load(file)
			checkMistakes(t, err, file, want)
		})
	}
	everyFileHasACase(t, "testdata/schedule", 8+1)
}

// One schedule that is wrong must not keep the others from running, and the
// whole file from being read.
func TestWrongScheduleIsRefusedByName(t *testing.T) {
	const file = "testdata/schedule/refused.yaml"
	c, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	good, refused := c.Scheduled()
	if len(good) != 1 || good[0].Name != "dispatch" || good[0].Zone != "Europe/Berlin" || good[0].Plan == nil ||
		!cmp.Equal(good[0].Passes, []reconcile.PassName{reconcile.PassSubmit, reconcile.PassPoll}) {
		t.Errorf("good: %+v", good)
	}
	var names []string
	for _, r := range refused {
		names = append(names, r.Name)
	}
	if diff := cmp.Diff([]string{"nightly", "key", "long", "mars", "empty", "here", "never"}, names); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
	const form = `must be five fields (minute, hour, day of the month, month, weekday) such as "30 2 * * *", or a word such as @daily or @every 90s`
	checkMistakes(t, c.CheckSchedules(), file, []string{
		`:7:5: schedules[0].cron: schedule "0 25 * * *": hour "25": `,
		":11:5: schedules[2].cron: " + form,
		":14:5: schedules[3].cron: " + form,
		":16:34: schedules[4].zone: is no time zone that is the same everywhere",
		":17:19: schedules[5].cron: " + form,
		":18:34: schedules[6].zone: is no time zone that is the same everywhere",
		`:19:19: schedules[7].cron: schedule "0 0 30 2 *": it names a date that never comes`,
	})
}

func TestDefaultSchedulesCanBeRun(t *testing.T) {
	for name, c := range map[string]*Config{"default": Default(), "sandbox": sandboxConfig(t)} {
		good, refused := c.Scheduled()
		if len(refused) > 0 || len(good) != len(c.Schedules) || c.CheckSchedules() != nil {
			t.Errorf("%s: %d good, refused %v", name, len(good), refused)
		}
		run := map[reconcile.PassName]bool{}
		for _, s := range good {
			for _, p := range s.Passes {
				run[p] = true
			}
		}
		for _, p := range reconcile.Passes() {
			if !run[p] {
				t.Errorf("%s: no schedule runs %s", name, p)
			}
		}
	}
}

// sandboxConfig is what `rollcall init --sandbox` writes.
func sandboxConfig(t *testing.T) *Config {
	t.Helper()
	dir := t.TempDir()
	if _, err := Scaffold(dir, ScaffoldOptions{SandboxURL: "http://127.0.0.1:8089/v1"}); err != nil {
		t.Fatal(err)
	}
	c, err := Load(filepath.Join(dir, FileName))
	if err != nil {
		t.Fatal(err)
	}
	return c
}
