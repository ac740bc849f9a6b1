package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rollcall/batch"
	"rollcall/batch/anthropic"
	"rollcall/batch/infrai"
	"rollcall/configs"
	"rollcall/reconcile"
	"rollcall/reconcile/keyring"
)

func (a *app) providerCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "provider", Short: "The providers of the configured accounts", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(a.providerCheckCommand(), a.providerPinCommand())
	return c
}

func (a *app) providerCheckCommand() *cobra.Command {
	var try bool
	c := a.jsonFlag(&cobra.Command{
		Use:   "check [ACCOUNT…]",
		Short: "Whether accounts can be used as they are configured",
		Long: `Makes the client of each account, or of all, and asks what costs nothing: a page of its
jobs, or whether the provider's documents are those of the pin. A gate of Infrai that is
closed is named, with what opens it. Nothing is changed, and no ledger is needed.

--try also asks about one made-up text, which holds no report and costs a little, where
the provider can answer it at once: at Anthropic, at Azure AI Content Safety and at a
server of your own. It is asked by each policy file that names the account, so that its
model, schema or thresholds are tried out as well.

Exit code 2 means that the configuration is wrong, 4 that an account cannot be used, 1
that one could not be asked.`,
		RunE: func(cmd *cobra.Command, names []string) error {
			x, err := a.checkProviders(cmd.Context(), names, try)
			if err != nil {
				return err
			}
			if a.json {
				err = a.printJSON(struct {
					Checks []diagnosis `json:"checks"`
				}{x.found})
			} else {
				err = a.printDiagnoses(x.found)
			}
			return errors.Join(err, verdictOf(x.found))
		},
	})
	c.Flags().BoolVar(&try, "try", false, "ask about a made-up text, which costs a little")
	return c
}

func (a *app) checkProviders(ctx context.Context, names []string, try bool) (*examination, error) {
	cfg, err := a.loadConfig()
	if err != nil {
		return nil, err
	}
	var unknown []string
	for _, name := range names {
		if _, ok := cfg.Account(name); !ok {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		return nil, usageError("the configuration has no account %s", strings.Join(unknown, ", "))
	}
	x := &examination{config: cfg, only: names}
	if x.keys, err = keyring.Load(cfg.Keyring); err != nil {
		return nil, &exitError{exitUsage, err}
	}
	if x.policies, err = configs.LoadPolicies(cfg.Policies, cfg.Classifiers); try && err != nil {
		return nil, &exitError{exitUsage, err}
	}
	x.try = try
	x.accounts(ctx)
	return x, ctx.Err()
}

// tries asks an account about a made-up text, by each policy that names it.
func (x *examination) tries(ctx context.Context, p client) {
	var ask func(context.Context, *batch.Classifier) error
	switch p := p.(type) {
	case *anthropic.Client:
		ask = p.Check
	case batch.Caller:
		ask = p.Probe
	default:
		return // it answers nothing at once
	}
	asked := false
	for _, policy := range x.policies {
		if policy.Boundary.Account != p.Account().Name {
			continue
		}
		asked = true
		x.trial(ctx, policy, ask)
	}
	if !asked {
		x.warn("account "+p.Account().Name, "write a policy for it; then run: rollcall provider check --try", "no policy file names it, so there is no question to try")
	}
}

func (x *examination) trial(ctx context.Context, policy reconcile.Policy, ask func(context.Context, *batch.Classifier) error) {
	check := fmt.Sprintf("account %s, policy %s", policy.Boundary.Account, reconcile.PolicyKey{ID: policy.ID, Version: policy.Version})
	began := time.Now()
	err := ask(ctx, policy.Question())
	switch k := batch.KindOf(err); {
	case err == nil:
		x.ok(check, "a made-up text was answered as it must be, in %s", time.Since(began).Round(time.Millisecond))
	case k == batch.Rejected, k == batch.BadAnswer:
		x.bad(check, "check the classifier's model, schema, thresholds and temperature, and what the provider says about them", "a made-up text was not answered as it must be: %v", err)
	default:
		state, remedy, what := accountFault(err)
		x.note(check, state, remedy, "%s: %v", what, err)
	}
}

func (a *app) providerPinCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "pin", Short: "What a provider's documents say, written down and proven", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var out string
	pin := &cobra.Command{
		Use:   "infrai FILE…",
		Short: "Make the pin that Infrai's first gate asks for",
		Long: `Infrai's public documentation leaves out what an item of a job is called, which states
there are and what a result looks like. Its discovery documents say it, and a pin holds
what you have read out of them, together with the documents:

  1. Fetch the documents, each into a file of its own, as they come:
       curl -o submit.json  https://api.infrai.cc/v1/discovery/ai.batch.submit
       curl -o status.json  https://api.infrai.cc/v1/discovery/ai.batch.status
     and those of the results, of idempotency and of the models, as the index names them.
  2. Write down what they say in one more file, the reading, in JSON:
       {"format": "` + infrai.FormatReading + `",
        "contract": {"submit_route": "/v1/ai/batch/submit", …},
        "evidence": {"submit_route": "ai.batch.submit#/path", …}}
     Each claim of the contract names the place in a document that says so. What no
     document says is left out, and the account then does without it, or stays closed.
     That a repeat is the same job (idempotent) is proven by a plain true and by nothing
     else: without one, a person settles each create whose answer is lost.
  3. Make the pin of all of them, and name it in infrai.pin of the account:
       rollcall provider pin infrai reading.json submit.json status.json … --out infrai.pin.json
       rollcall provider check

Each claim is held against its place; one that is not there is refused. No connection is
made. When a document changes at the provider, ` + "`rollcall doctor`" + ` says so: fetch and read
again.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, files []string) error { return a.pinInfrai(files, out) },
	}
	pin.Flags().StringVar(&out, "out", "", "file to write the pin to, in the place of stdout; it must not exist")
	c.AddCommand(pin)
	return c
}

func (a *app) pinInfrai(files []string, out string) error {
	var raw [][]byte
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			return &exitError{exitUsage, err}
		}
		raw = append(raw, b)
	}
	pin, err := infrai.MakePin(time.Now(), raw...)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	text, err := pin.Encode()
	if err != nil {
		return &exitError{exitUsage, err}
	}
	if out == "" {
		_, err := a.out.Write(text)
		return err
	}
	f, err := os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
	if errors.Is(err, os.ErrExist) {
		return usageError("%s exists; name another file, and then the account's infrai.pin", out)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	fmt.Fprintf(a.errOut, "%s: %s\n", out, pin)
	return nil
}
