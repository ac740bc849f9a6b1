package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rollcall/cmd/rollcall/demodata"
	"rollcall/configs"
	"rollcall/reconcile"
	"rollcall/sql"
)

const (
	// demoSpeed makes a job of a minute end within a second.
	demoSpeed = 120
	// demoLimit is far above what the demo takes, so that it never hangs.
	demoLimit = 5 * time.Minute
)

func (a *app) demoCommand() *cobra.Command {
	var dir, databaseEnv, provider string
	c := &cobra.Command{
		Use:   "demo",
		Short: "The whole job on synthetic reports, on this machine",
		Long: `Takes about 200 synthetic reports of a patient community through the whole job: the
real passes and the real client, over HTTP, against the sandbox. Some are delivered
twice, edited, hostile, empty, or audio only; and the sandbox has a bad day.

--provider says whose API the sandbox is called by: openai, anthropic or infrai, with
jobs; azure (Azure AI Content Safety) or inhouse (a server of your own), one text a call.
Each has bad days of its own.

It leaves a deployment behind to look around in. With --database-env NAME it uses the
empty PostgreSQL database whose address is in that environment variable.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			as, err := sandboxedAs(provider)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), demoLimit)
			defer cancel()
			d := &demo{app: a, dir: dir, databaseEnv: databaseEnv, as: as, paint: painter(colours(a.out))}
			err = d.run(ctx)
			if cmd.Context().Err() != nil {
				return cmd.Context().Err()
			}
			return err
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "folder to leave the deployment in; a new temporary one by default")
	c.Flags().StringVar(&databaseEnv, "database-env", "", "environment variable with the address of an empty PostgreSQL database")
	c.Flags().StringVar(&provider, "provider", "openai", "whose API: "+sandboxedWords())
	return c
}

// demo is one run of the demonstration.
type demo struct {
	*app
	as          sandboxed
	dir         string
	databaseEnv string
	paint       painter
	box         *runningSandbox
	step        int
}

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.out, format+"\n", args...) }

// title begins a step.
func (d *demo) title(format string, args ...any) {
	d.step++
	d.say("\n%s", d.paint.bold(fmt.Sprintf("%d. "+format, append([]any{d.step}, args...)...)))
}

func (d *demo) run(ctx context.Context) (err error) {
	if d.dir == "" {
		if d.dir, err = os.MkdirTemp("", "rollcall-demo-"); err != nil {
			return err
		}
	}
	if err := d.start(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.box.stop()) }()
	dep, err := d.open(ctx)
	if err != nil {
		return err
	}
	defer dep.close()
	r, err := dep.reconciler()
	if err != nil {
		return err
	}
	for _, step := range []func(context.Context, *deployment, *reconcile.Reconciler) error{d.approve, d.takeIn, d.passes, d.callRoll} {
		if err := step(ctx, dep, r); err != nil {
			return err
		}
	}
	return d.lookAround(ctx, dep)
}

// start writes a deployment and starts the sandbox that it talks to.
func (d *demo) start() error {
	d.title("A deployment, and a stand-in for the provider")
	opts, err := d.as.options()
	if err != nil {
		return err
	}
	opts.Dir, opts.Speed, opts.Seed, opts.Log = filepath.Join(d.dir, "sandbox"), demoSpeed, 1, quiet
	if d.box, err = startSandbox("127.0.0.1:0", opts); err != nil {
		return err
	}
	if _, err := scaffold(d.dir, d.as.scaffold("http://"+d.box.address+d.as.path)); err != nil {
		return errors.Join(err, d.box.stop())
	}
	d.configPath = filepath.Join(d.dir, configs.FileName)
	d.logLevel = "error"
	if err := d.hurry(); err != nil {
		return errors.Join(err, d.box.stop())
	}
	d.say("   in %s", d.dir)
	d.say("   as %s", d.as.says)
	d.say("   the sandbox is not a model: a short list of words stands in for one; its time runs %d times as fast", demoSpeed)
	return nil
}

// hurry shortens the waits of the example configuration, whose times suit a
// person, and names the database.
func (d *demo) hurry() error {
	raw, err := os.ReadFile(d.configPath)
	if err != nil {
		return err
	}
	text := string(raw)
	if d.databaseEnv != "" {
		text = strings.Replace(text, "database: rollcall.db", "database: {url: {env: "+d.databaseEnv+"}}", 1)
	}
	for _, wait := range []string{"item_retry: 2s", "retry: 2s", "first: 1s", "max: 5s", "files_grace: 5s"} {
		name, _, _ := strings.Cut(wait, ":")
		text = strings.ReplaceAll(text, wait, name+": 250ms")
	}
	// Behind it an answer that was lost is looked for.
	text = strings.Replace(text, "send_within: 30s", "send_within: 5s", 1)
	return os.WriteFile(d.configPath, []byte(text), 0o600)
}

// open makes the demo's ledger and opens it.
func (d *demo) open(ctx context.Context) (*deployment, error) {
	cfg, err := d.loadConfig()
	if err != nil {
		return nil, err
	}
	name, _, err := d.createLedger(ctx, cfg)
	if errors.Is(err, sql.ErrOtherKeyring) {
		return nil, usageError("%s holds another ledger; the demo needs an empty database", name)
	}
	if err != nil {
		return nil, err
	}
	d.say("   ledger: %s", name)
	return d.app.open(ctx)
}

func (d *demo) approve(ctx context.Context, dep *deployment, r *reconcile.Reconciler) error {
	d.title("A policy says where texts may go; somebody approves it")
	files, err := configs.LoadPolicies(dep.config.Policies, dep.config.Classifiers)
	if err != nil {
		return err
	}
	for _, p := range files {
		v, err := reconcile.NewPolicyVersion(p, dep.keys)
		if err != nil {
			return err
		}
		now, err := r.Now(ctx)
		if err != nil {
			return err
		}
		if err := dep.store.ApprovePolicy(ctx, now, v, "demo", "synthetic texts, sandbox on this machine", "none"); err != nil {
			return err
		}
		d.say("   %s: %s, host %s, region %s", v.Key(), p.Boundary.Processor, p.Boundary.Host, p.Boundary.Region)
	}
	return nil
}

// takeIn delivers the reports twice: the second time nothing changes.
func (d *demo) takeIn(ctx context.Context, dep *deployment, r *reconcile.Reconciler) error {
	d.title("Reports come in: some twice, some edited, some broken")
	for i, note := range []string{"first delivery", "the same file again"} {
		in := d.newIntake(dep, r)
		in.listRefused = i == 0
		tally, err := in.read(ctx, "demo reports", bytes.NewReader(demodata.Reports()))
		if err != nil {
			return err
		}
		d.say("   %s: %s", note, tallyLine(tally))
	}
	return nil
}

// demoStops is how often somebody lets the demo go on. The bad days that stop
// dispatch are over by then.
const demoStops = 5

// passes runs the pipeline and shows what moved. What stops dispatch is for a
// person to decide, so the demo plays that person.
func (d *demo) passes(ctx context.Context, dep *deployment, r *reconcile.Reconciler) error {
	d.title("The passes run until nothing is left to do; the sandbox has a bad day")
	r.Ran = func(pass reconcile.PassName, t reconcile.Tally) {
		if pass != reconcile.PassCheck && t.Moved > 0 {
			d.say("   %-8s %4d moved on%s", pass, t.Moved, putOff(t))
		}
	}
	defer func() { r.Ran = nil }()
	for range demoStops {
		if _, err := r.RunUntilIdle(ctx, reconcile.Passes(), reconcile.Sleep); err != nil {
			return err
		}
		if resumed, err := d.resume(ctx, dep, r); err != nil || !resumed {
			return err
		}
	}
	return nil
}

// resume ends the pauses of dispatch, and says why there were any.
func (d *demo) resume(ctx context.Context, dep *deployment, r *reconcile.Reconciler) (resumed bool, err error) {
	pauses, err := dep.store.Pauses(ctx)
	if err != nil {
		return false, err
	}
	now, err := r.Now(ctx)
	if err != nil {
		return false, err
	}
	for _, p := range pauses {
		if p.Stage != reconcile.PauseDispatch {
			continue
		}
		d.say("   dispatch of %s has stopped: %s; somebody looks into it and resumes", p.Scope, p.Reason)
		if err := dep.store.Resume(ctx, now, p.Scope, p.Stage, "demo", "looked into; synthetic texts only"); err != nil {
			return false, err
		}
		resumed = true
	}
	return resumed, nil
}

func putOff(t reconcile.Tally) string {
	if t.Failed == 0 {
		return ""
	}
	return fmt.Sprintf(", %d put off", t.Failed)
}

// callRoll proves it: from our books, and from the sandbox's.
func (d *demo) callRoll(ctx context.Context, _ *deployment, r *reconcile.Reconciler) error {
	d.title("The roll call")
	report, err := r.RunCheck(ctx)
	if err != nil {
		return err
	}
	d.printRoll(report)
	said, err := d.as.books(d.box.Server)
	if err != nil {
		return err
	}
	d.say("\nthe sandbox's own books: %s", said)
	if n := report.Broken(); n > 0 {
		return checkOutcome(report)
	}
	if report.Roll.Accepted != report.Roll.Authoritative {
		return fmt.Errorf("%d reports were accepted and %d have a record", report.Roll.Accepted, report.Roll.Authoritative)
	}
	return nil
}

func (d *demo) lookAround(ctx context.Context, dep *deployment) error {
	d.title("Look around")
	jobs, err := dep.store.Jobs(ctx, nil, 1)
	if err != nil {
		return err
	}
	me := "rollcall -c " + shellWord(d.configPath)
	d.say("   %s status", me)
	d.say("   %s explain %s", me, demodata.Example)
	for _, j := range jobs {
		d.say("   %s job show %s", me, j.JobID)
	}
	d.say("   %s findings", me)
	d.say("\nrollcall is `go run ./cmd/rollcall`, or what `go build -o rollcall ./cmd/rollcall` makes.")
	return nil
}
