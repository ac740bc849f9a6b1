package main

import (
	stdsql "database/sql"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"rollcall/batch"
	"rollcall/reconcile"
	"rollcall/reconcile/keyring"
	"rollcall/sql"
	"rollcall/sql/sqltest"
)

// doctor runs doctor, and looks whether each remedy can be followed.
func (o *operator) doctor(code int) []diagnosis {
	o.t.Helper()
	v := asJSON[struct {
		Checks []diagnosis `json:"checks"`
	}](o, code, "doctor")
	for _, d := range v.Checks {
		if d.Found == "" || d.State != healthOK && d.Remedy == "" {
			o.t.Errorf("%s is %s: found %q, and does not say what to do", d.Check, d.State, d.Found)
		}
		followable(o.t, d.Remedy)
	}
	return v.Checks
}

// followable fails unless each command in a sentence exists and takes its flags.
func followable(t *testing.T, sentence string) {
	t.Helper()
	for _, rest := range strings.Split(sentence, "rollcall ")[1:] {
		rest, _, _ = strings.Cut(rest, ";")
		rest, _, _ = strings.Cut(rest, ", ")
		words := regexp.MustCompile(`"[^"]*"|\S+`).FindAllString(rest, -1)
		c, args, err := (&app{}).rootCommand().Find(words)
		if err != nil || !c.HasParent() {
			t.Errorf("there is no command %q, in: %s", rest, sentence)
			continue
		}
		if err := c.ParseFlags(args); err != nil {
			t.Errorf("%q: %v", rest, err)
		}
	}
}

// wantFound fails unless a check came to a state, and says some words. It
// returns the first such line.
func wantFound(t *testing.T, found []diagnosis, check string, state health, says string) diagnosis {
	t.Helper()
	for _, d := range found {
		if d.Check == check && d.State == state && strings.Contains(d.Found, says) {
			return d
		}
	}
	t.Errorf("no line says that %s is %s: %s; found:", check, state, says)
	for _, d := range found {
		t.Logf("%s %s: %s", d.Check, d.State, d.Found)
	}
	return diagnosis{}
}

func TestDoctorOfAWholeDeployment(t *testing.T) {
	for _, database := range sqltest.Databases {
		t.Run(database, func(t *testing.T) {
			o := newOperator(t, database)
			o.must(exitDone, "intake", o.file("r.jsonl", markedReports(3)))
			o.must(exitDone, "run", "--until-idle")
			before, err := o.box.Books()
			if err != nil {
				t.Fatal(err)
			}
			audit := o.auditHigh()
			found := o.doctor(exitDone)
			for _, d := range found {
				if d.State == healthBad || d.State == healthUnknown {
					t.Errorf("%s is %s: %s", d.Check, d.State, d.Found)
				}
			}
			for _, check := range []string{"configuration", "policies", "secrets", "keyring", "database", "schema", "self-test", "durability", "witness", "leases", "pauses", "submissions", "findings", "jobs", "approvals"} {
				wantFound(t, found, check, healthOK, "")
			}
			account := wantFound(t, found, "account sandbox", healthOK, "it accepts the key")
			for _, says := range []string{o.box.address, "region local", "settled by its list of jobs", "lists 1 job"} {
				if !strings.Contains(account.Found, says) {
					t.Errorf("%q is not in %q", says, account.Found)
				}
			}
			after, err := o.box.Books()
			if err != nil || after.Requests["list_batches"] != before.Requests["list_batches"]+1 {
				t.Errorf("requests %v, %v", after.Requests, err)
			}
			for op, n := range after.Requests {
				if op != "list_batches" && n != before.Requests[op] {
					t.Errorf("doctor called %s", op)
				}
			}
			if got := o.auditHigh(); got != audit {
				t.Errorf("doctor wrote: the audit grew from %d to %d", audit, got)
			}
			r := o.must(exitDone, "--log-level", "trace", "doctor")
			if lines := strings.Count(r.out, "\n"); lines != len(found)+1 {
				t.Errorf("%d lines for %d checks:\n%s", lines, len(found), r.out)
			}
			o.noMarker()
		})
	}
}

// ledger is the deployment's store, for looking past the commands.
func (o *operator) ledger() *sql.Store {
	o.t.Helper()
	a := &app{configPath: filepath.Join(o.dir, "rollcall.yaml")}
	cfg, err := a.loadConfig()
	if err != nil {
		o.t.Fatal(err)
	}
	store, err := a.openStore(o.t.Context(), cfg, sql.Options{})
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() {
		if err := store.Close(); err != nil {
			o.t.Error(err)
		}
	})
	return store
}

func (o *operator) auditHigh() int64 {
	o.t.Helper()
	high, err := o.ledger().AuditHigh(o.t.Context())
	if err != nil {
		o.t.Fatal(err)
	}
	return high
}

func TestDoctorFindsWhatIsWrongInTheConfiguration(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil       func(o *operator)
		check, says string
	}{
		"no configuration": {func(o *operator) {
			if err := os.Remove(filepath.Join(o.dir, "rollcall.yaml")); err != nil {
				o.t.Fatal(err)
			}
		}, "configuration", "does not exist"},
		"a key that others can read": {func(o *operator) {
			if err := os.Chmod(filepath.Join(o.dir, "sandbox.key"), 0o644); err != nil {
				o.t.Fatal(err)
			}
		}, "secrets", "may be read by other users"},
		"a policy that names no account": {func(o *operator) { o.edit("rollcall.yaml", "name: sandbox", "name: another") }, "policies", "no account of this name"},
		"no keyring": {func(o *operator) {
			if err := os.Remove(filepath.Join(o.dir, "rollcall.keyring")); err != nil {
				o.t.Fatal(err)
			}
		}, "keyring", "rollcall.keyring"},
		"another keyring": {func(o *operator) {
			keys, err := keyring.Generate()
			if err == nil {
				err = keys.Save(filepath.Join(o.dir, "another.keyring"))
			}
			if err != nil {
				o.t.Fatal(err)
			}
			o.edit("rollcall.yaml", "keyring: rollcall.keyring", "keyring: another.keyring")
		}, "keyring", ""},
		"a mislaid ledger":      {func(o *operator) { o.edit("rollcall.yaml", "database: rollcall.db", "database: another.db") }, "database", "no ledger"},
		"a schedule that is no": {func(o *operator) { o.edit("rollcall.yaml", `cron: "@every 30s"`, `cron: "99 * * * *"`) }, "schedules", "schedules[1]"},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOperator(t, "sqlite")
			tc.spoil(o)
			wantFound(t, o.doctor(exitUsage), tc.check, healthBad, tc.says)
		})
	}
}

func TestDoctorOfADatabaseThatWaitsForMigrate(t *testing.T) {
	o := newOperator(t, "sqlite")
	t.Setenv("ROLLCALL_TEST_EMPTY", sqltest.Address(t, "postgres"))
	o.edit("rollcall.yaml", "database: rollcall.db", "database: {url: {env: ROLLCALL_TEST_EMPTY}}")
	found := o.doctor(exitUsage)
	wantFound(t, found, "schema", healthBad, "")
	wantFound(t, found, "account sandbox", healthOK, "")
}

// What can be examined without the ledger is.
func TestDoctorWithoutItsDatabase(t *testing.T) {
	o := newOperator(t, "sqlite")
	o.edit("rollcall.yaml", "database: rollcall.db", "database: postgres://nobody@127.0.0.1:1/nothing")
	found := o.doctor(exitFailed)
	wantFound(t, found, "database", healthUnknown, "connect to postgres://127.0.0.1:1/nothing")
	wantFound(t, found, "account sandbox", healthOK, "")
}

func TestDoctorFindsWhatWaitsForAnOperator(t *testing.T) {
	for _, database := range sqltest.Databases {
		t.Run(database, func(t *testing.T) {
			o := newOperator(t, database)
			job := o.lostJob("drop_after:op=create")
			wantFound(t, o.doctor(exitDone), "submissions", healthWarn, "job "+job+"; resolve looks for it")
			o.must(exitDone, "pause", "--stage", "dispatch", "--by", "anna", "--reason", "an incident")
			found := o.doctor(exitDecision)
			if d := wantFound(t, found, "pauses", healthBad, "dispatch of all is paused"); !strings.Contains(d.Remedy, "rollcall resume --scope all --stage dispatch") {
				t.Errorf("remedy %q", d.Remedy)
			}
			o.must(exitDone, "resume", "--stage", "dispatch", "--reason", "over")
			o.misbehave("unauthorized:op=any")
			wantFound(t, o.doctor(exitDecision), "account sandbox", healthBad, "it refuses the key")
			o.misbehave("bad_gateway:op=any")
			wantFound(t, o.doctor(exitFailed), "account sandbox", healthUnknown, "it could not be asked")
			o.misbehave("empty_object:op=any")
			wantFound(t, o.doctor(exitDecision), "account sandbox", healthBad, "its answer is none of this API")
			o.noMarker()
		})
	}
}

func TestF47_DoctorFindsARestoredLedger(t *testing.T) {
	for _, database := range sqltest.Databases {
		t.Run(database, func(t *testing.T) {
			o := newOperator(t, database)
			o.must(exitDone, "intake", o.file("r.jsonl", markedReports(3)))
			restore := o.backup(database)
			o.must(exitDone, "run", "collect", "submit")
			wantFound(t, o.doctor(exitDone), "witness", healthOK, "has all that")
			job := asJSON[[]reconcile.JobView](o, exitDone, "jobs")[0]
			sub := asJSON[reconcile.JobHistory](o, exitDone, "job", "show", job.JobID).Submissions[0].SubmissionID
			restore()
			if d := wantFound(t, o.doctor(exitDecision), "witness", healthBad, "submissions "+sub); !strings.Contains(d.Remedy, "rollcall recover") {
				t.Errorf("remedy %q", d.Remedy)
			}
			wantFound(t, o.doctor(exitDecision), "pauses", healthOK, "") // it looks, and leaves it to the passes to stop
			if err := os.Remove(filepath.Join(o.dir, "rollcall.witness")); err != nil {
				t.Fatal(err)
			}
			wantFound(t, o.doctor(exitDone), "witness", healthWarn, "is not there yet")
			o.edit("rollcall.yaml", "keyring:", "witness: \"\"\nkeyring:")
			wantFound(t, o.doctor(exitDone), "witness", healthWarn, "there is none")
			o.noMarker()
		})
	}
}

func TestDoctorFindsSchedulesAndJobsThatAreLate(t *testing.T) {
	for _, database := range sqltest.Databases {
		t.Run(database, func(t *testing.T) {
			o := newOperator(t, database)
			wantFound(t, o.doctor(exitDone), "schedules", healthWarn, "the daemon has never run")
			ctx, store := t.Context(), o.ledger()
			now, err := store.Now(ctx)
			if err != nil {
				t.Fatal(err)
			}
			put := func(name, cron string, due time.Time) {
				if _, err := store.PutSchedule(ctx, now, reconcile.SchedulePlan{Name: name, Expression: cron, Zone: "UTC", NextDue: due}); err != nil {
					t.Fatal(err)
				}
			}
			put("dispatch", "@every 2s", now.Add(time.Hour))
			wantFound(t, o.doctor(exitDone), "schedules", healthOK, "1 schedule is in time")
			put("roll", "@every 30s", now.Add(-time.Hour))
			put("inventory", "@every 7m", now.Add(time.Hour))
			found := o.doctor(exitDecision)
			wantFound(t, found, "schedules", healthBad, "roll was due")
			wantFound(t, found, "schedules", healthWarn, `inventory is "@every 7m" in UTC in the ledger`)

			o.edit("rollcall.yaml", "jobs:\n", "check: {job_overdue: 1ms, stuck_after: 1ms}\njobs:\n")
			o.must(exitDone, "intake", o.file("r.jsonl", markedReports(3)))
			o.must(exitDone, "run", "collect", "submit")
			job := asJSON[[]reconcile.JobView](o, exitDone, "jobs")[0]
			d := wantFound(t, o.doctor(exitDecision), "jobs", healthWarn, "job "+job.JobID+" is submitted since")
			if !strings.Contains(d.Remedy, "rollcall job inspect "+job.JobID) {
				t.Errorf("remedy %q", d.Remedy)
			}
		})
	}
}

func TestDoctorOfASubmissionThatNobodyCanSettle(t *testing.T) {
	x := &examination{}
	u := reconcile.UncertainView{JobID: "j", LookView: reconcile.LookView{Obstacle: "the list is not complete"}}
	x.uncertain(reconcile.Decisions{Uncertain: []reconcile.UncertainView{u}})
	d := wantFound(t, x.found, "submissions", healthBad, "job j: the list is not complete")
	followable(t, d.Remedy)
	if !strings.HasSuffix(d.Remedy, "rollcall job resolve j") {
		t.Errorf("remedy %q", d.Remedy)
	}
}

// Each kind of an account's fault has a remedy of its own.
func TestDoctorJudgesAnAccount(t *testing.T) {
	for err, want := range map[*batch.Error]struct {
		state health
		says  string
	}{
		{Kind: batch.Denied, Code: batch.CodeNoKey}: {healthBad, "there is no key to ask it with"},
		{Kind: batch.Denied, Code: "forbidden"}:     {healthBad, "it refuses the key"},
		{Kind: batch.OutOfCredit}:                   {healthBad, "its money or quota is used up"},
		{Kind: batch.NotFound}:                      {healthBad, "its answer is none of this API"},
		{Kind: batch.Temporary}:                     {healthUnknown, "it could not be asked"},
	} {
		if state, remedy, what := accountFault(err); state != want.state || what != want.says || remedy == "" {
			t.Errorf("%+v: %s, %q, %q", err, state, remedy, what)
		}
	}
}

func TestDoctorJudgesAServer(t *testing.T) {
	good := sql.ServerFacts{Version: "17.2", SynchronousCommit: "on", MaxConnections: 100, PoolSize: 8,
		Log: sql.LogFacts{MinDurationStatement: "-1", ErrorVerbosity: "terse", ParameterMaxLength: "-1", ParameterMaxLengthError: "0"}}
	for name, tc := range map[string]struct {
		spoil func(f *sql.ServerFacts)
		check string
		state health
		says  string
	}{
		"good":                         {func(*sql.ServerFacts) {}, "durability", healthOK, "no standby is connected"},
		"a superuser":                  {func(f *sql.ServerFacts) { f.Superuser = true }, "role", healthWarn, "superuser"},
		"commits are not waited for":   {func(f *sql.ServerFacts) { f.SynchronousCommit = "off" }, "durability", healthBad, "lost when the server crashes"},
		"a standby that lags":          {func(f *sql.ServerFacts) { f.Standbys = 1 }, "durability", healthWarn, "lost in a fail-over: 1 standby is connected"},
		"only this server is waited":   {func(f *sql.ServerFacts) { f.Standbys, f.SynchronousStandbyNames, f.SynchronousCommit = 1, "s", "local" }, "durability", healthWarn, "lost in a fail-over"},
		"a synchronous standby":        {func(f *sql.ServerFacts) { f.Standbys, f.SynchronousStandbys, f.SynchronousStandbyNames = 1, 1, "s" }, "durability", healthOK, `a standby of "s"`},
		"one that we may not see":      {func(f *sql.ServerFacts) { f.Standbys, f.HiddenStandbys, f.SynchronousStandbyNames = 1, 1, "s" }, "durability", healthOK, `a standby of "s"`},
		"one that is away":             {func(f *sql.ServerFacts) { f.SynchronousStandbyNames = "s" }, "durability", healthBad, "no such standby is connected"},
		"ids in the log":               {func(f *sql.ServerFacts) { f.Log.ErrorVerbosity = "default" }, "server log", healthWarn, "external ids get into"},
		"too few connections":          {func(f *sql.ServerFacts) { f.MaxConnections = 8 }, "connections", healthBad, "the server has 8"},
		"few connections":              {func(f *sql.ServerFacts) { f.MaxConnections = 20 }, "connections", healthWarn, "the server has 20"},
		"a clock that is ahead":        {func(f *sql.ServerFacts) { f.ClockAheadMS = 5000 }, "clock", healthWarn, "5s"},
		"a clock that is far behind":   {func(f *sql.ServerFacts) { f.ClockAheadMS = -90_000 }, "clock", healthBad, "1m30s"},
		"a pooler that shares servers": {func(f *sql.ServerFacts) { f.Pooler = true }, "server", healthOK, "behind a pooler"},
	} {
		t.Run(name, func(t *testing.T) {
			f := good
			tc.spoil(&f)
			x := &examination{}
			x.server(f)
			d := wantFound(t, x.found, tc.check, tc.state, tc.says)
			followable(t, d.Remedy)
			for _, other := range x.found {
				if other.State != healthOK && other.Check != tc.check {
					t.Errorf("%s is %s: %s", other.Check, other.State, other.Found)
				}
				if other.State != healthOK && other.Remedy == "" {
					t.Errorf("%s does not say what to do", other.Check)
				}
			}
		})
	}
}

// F48: a full disk is seen before it is full.
func TestF48_DoctorJudgesAFile(t *testing.T) {
	good := sql.FileFacts{Path: "/data/rollcall.db", FileSystem: "ext4", JournalMode: "wal", Synchronous: "full", ForeignKeys: true, FreeBytes: 5 << 30}
	for name, tc := range map[string]struct {
		spoil func(f *sql.FileFacts)
		check string
		state health
		says  string
	}{
		"good":                     {func(*sql.FileFacts) {}, "disk space", healthOK, "5 GiB are free for /data/rollcall.db"},
		"nobody knows":             {func(f *sql.FileFacts) { f.FreeBytes = -1 }, "disk space", healthOK, "does not tell"},
		"little space":             {func(f *sql.FileFacts) { f.FreeBytes = 500 << 20 }, "disk space", healthWarn, "500 MiB"},
		"no space":                 {func(f *sql.FileFacts) { f.FreeBytes = 1 << 20 }, "disk space", healthBad, "1 MiB"},
		"another journal":          {func(f *sql.FileFacts) { f.JournalMode = "delete" }, "durability", healthBad, "delete"},
		"commits that do not wait": {func(f *sql.FileFacts) { f.Synchronous = "normal" }, "durability", healthBad, "normal"},
		"no foreign keys":          {func(f *sql.FileFacts) { f.ForeignKeys = false }, "durability", healthBad, "false"},
	} {
		t.Run(name, func(t *testing.T) {
			f := good
			tc.spoil(&f)
			x := &examination{}
			x.file(f)
			followable(t, wantFound(t, x.found, tc.check, tc.state, tc.says).Remedy)
		})
	}
}

func TestDoctorsExitCode(t *testing.T) {
	ok, warn := diagnosis{State: healthOK}, diagnosis{State: healthWarn}
	bad, unknown, wrong := diagnosis{State: healthBad}, diagnosis{State: healthUnknown}, diagnosis{State: healthBad, configuration: true}
	for name, tc := range map[string]struct {
		found []diagnosis
		code  int
	}{
		"nothing":       {[]diagnosis{ok, warn}, exitDone},
		"unknown":       {[]diagnosis{ok, unknown, warn}, exitFailed},
		"bad":           {[]diagnosis{unknown, bad}, exitDecision},
		"configuration": {[]diagnosis{unknown, bad, wrong}, exitUsage},
	} {
		err := verdictOf(tc.found)
		var e *exitError
		if got := exitDone; tc.code != got && (!errors.As(err, &e) || e.code != tc.code) || tc.code == exitDone && err != nil {
			t.Errorf("%s: %v, want exit code %d", name, err, tc.code)
		}
	}
}

func TestDoctorTriesToWrite(t *testing.T) {
	o := newOperator(t, "sqlite")
	wantFound(t, o.doctor(exitDone), "writes", healthOK, "can write")
	db, err := stdsql.Open("sqlite", filepath.Join(o.dir, "rollcall.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TRIGGER refuse BEFORE INSERT ON leases BEGIN SELECT RAISE(ABORT, 'attempt to write a readonly database'); END"); err != nil {
		t.Fatal(err)
	}
	wantFound(t, o.doctor(exitDecision), "writes", healthBad, "readonly")
	o.edit("rollcall.yaml", "keyring:", "witness: nowhere/rollcall.witness\nkeyring:")
	if d := wantFound(t, o.doctor(exitDecision), "witness", healthBad, "nowhere"); !strings.Contains(d.Remedy, "writable") {
		t.Errorf("remedy %q", d.Remedy)
	}
}

func TestF47_StatusWarnsOfARestoredLedger(t *testing.T) {
	o := newOperator(t, "sqlite")
	o.must(exitDone, "intake", o.file("r.jsonl", markedReports(3)))
	restore := o.backup("sqlite")
	o.must(exitDone, "run", "collect", "submit")
	type witnessed struct{ Witness string }
	if got := asJSON[witnessed](o, exitDone, "status").Witness; got != "" {
		t.Errorf("of a whole ledger: %q", got)
	}
	restore()
	if got := asJSON[witnessed](o, exitDecision, "status").Witness; !strings.Contains(got, "intents to send are missing") {
		t.Errorf("of a restored one: %q", got)
	}
	if r := o.must(exitDecision, "status"); !strings.Contains(r.out, "older than its witness") || strings.Contains(r.out, "nothing waits") {
		t.Errorf("status:\n%s", r.out)
	}
	if err := os.WriteFile(filepath.Join(o.dir, "rollcall.witness"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := o.must(exitDecision, "status"); !strings.Contains(r.out, "cannot be compared with its witness") {
		t.Errorf("status with a damaged witness:\n%s", r.out)
	}
}
