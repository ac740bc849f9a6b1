package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"rollcall/batch"
	"rollcall/reconcile"
)

func (a *app) jobInspectCommand() *cobra.Command {
	var account string
	c := a.jsonFlag(&cobra.Command{
		Use:   "inspect ID",
		Short: "Ask the provider about a job now, and show its answer as it came",
		Long: `Asks the provider about one job and shows what it answers, beside what the ledger says.
ID is ours or the provider's; the ledger need not know the latter. The look-up changes
nothing, and the answer is neither logged nor kept. It runs whatever is paused.

A look-up without an answer, or with one that says to come back, is tried 3 times.
Exit code 0 means that the provider answered with 200.`,
		Args: oneText,
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := a.open(cmd.Context())
			if err != nil {
				return err
			}
			defer d.close()
			at, err := d.toInspect(cmd.Context(), args[0], account)
			if err != nil {
				return err
			}
			answer, err := inspect(cmd.Context(), at.inspector, at.providerJobID, reconcile.Sleep)
			if at.known == nil && batch.KindOf(err) == batch.Rejected {
				return usageError("ID %q is neither a job of this ledger nor what a provider names one", args[0])
			}
			if err != nil {
				return err
			}
			if err := a.printInspection(at, answer); err != nil {
				return err
			}
			if answer.HTTPStatus != http.StatusOK {
				return &exitError{exitFailed, fmt.Errorf("the provider answered HTTP %d", answer.HTTPStatus)}
			}
			return nil
		},
	})
	c.Flags().StringVar(&account, "account", "", "the account to ask, where several are configured and the ledger does not know the job")
	return c
}

// inspected is a job that is to be looked up, and where.
type inspected struct {
	providerJobID string
	account       batch.Account
	inspector     batch.Inspector
	known         *reconcile.JobView // nil for a job that the ledger does not know
}

// toInspect finds a job by our id or the provider's, and the account to ask.
func (d *deployment) toInspect(ctx context.Context, id, account string) (inspected, error) {
	at := inspected{providerJobID: id}
	h, err := d.store.JobHistory(ctx, id)
	switch {
	case errors.Is(err, reconcile.ErrNotFound): // then it is the provider's
	case err != nil:
		return inspected{}, err
	case h.ProviderJobID == "":
		return inspected{}, fmt.Errorf("job %s is %s, and the ledger knows no provider job of it; rollcall job show %s", h.JobID, jobStateWord(h.JobView), h.JobID)
	default:
		at.known, at.providerJobID = &h.JobView, h.ProviderJobID
		if account == "" {
			account = h.Account
		}
	}
	all, err := d.clients()
	if err != nil {
		return inspected{}, err
	}
	for _, c := range all.callers {
		if c.Account().Name == account {
			return inspected{}, usageError("texts go to account %s one by one, so it has no jobs; rollcall job show says how far they are", account)
		}
	}
	provider, err := chooseAccount(all.accounts, account)
	if err != nil {
		return inspected{}, err
	}
	at.account = provider.Account()
	var ok bool
	if at.inspector, ok = provider.(batch.Inspector); !ok {
		return inspected{}, fmt.Errorf("account %s: its processor shows no answer as it came", at.account.Name)
	}
	return at, nil
}

// chooseAccount is the account of a name, or the only one where none is named.
func chooseAccount(accounts []batch.Provider, name string) (batch.Provider, error) {
	var names []string
	for _, p := range accounts {
		names = append(names, p.Account().Name)
	}
	switch i := slices.Index(names, name); {
	case i >= 0:
		return accounts[i], nil
	case name == "" && len(accounts) == 1:
		return accounts[0], nil
	case name == "":
		return nil, usageError("--account is missing: the ledger does not know the job, and it may be at %s", strings.Join(names, " or "))
	default:
		return nil, usageError("account %q is not configured; --account names one of %s", name, strings.Join(names, ", "))
	}
}

const (
	inspectTries = 3
	// inspectWait bounds what a person is let wait for. A provider that asks for
	// more is not asked again, and its answer is shown.
	inspectWait = 10 * time.Second
)

// inspect looks a job up, and again where the answer says to come back, or there
// is none. It makes no other call.
func inspect(ctx context.Context, i batch.Inspector, id string, wait func(context.Context, time.Duration) error) (batch.Inspection, error) {
	for try := 1; ; try++ {
		answer, err := i.Inspect(ctx, id)
		pause := max(answer.RetryAfter, batch.RetryAfter(err))
		if pause == 0 {
			pause = time.Duration(try) * time.Second
		}
		if try == inspectTries || pause > inspectWait || !comeBack(answer.HTTPStatus, err) {
			return answer, err
		}
		if err := wait(ctx, pause); err != nil {
			return batch.Inspection{}, err
		}
	}
}

// comeBack says whether the same look-up may have another answer soon.
func comeBack(status int, err error) bool {
	if err != nil {
		kind := batch.KindOf(err)
		return kind == batch.Temporary || kind == batch.RateLimited
	}
	return status == http.StatusRequestTimeout || status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
}

// inspectionView is what --json prints.
type inspectionView struct {
	HTTPStatus    int                `json:"http_status"`
	RequestID     string             `json:"request_id"` // the provider's reference
	Body          jsontext.Value     `json:"body"`       // as it came if it is JSON, otherwise as a string
	Cut           bool               `json:"body_cut"`   // the answer is longer: this is its first 1 MiB
	ProviderJobID string             `json:"provider_job_id"`
	Account       string             `json:"account"`
	Host          string             `json:"host"`
	Ledger        *reconcile.JobView `json:"ledger,omitempty"` // what the ledger says, if it knows the job
}

func (a *app) printInspection(at inspected, answer batch.Inspection) error {
	if a.json {
		return a.printInspectionJSON(at, answer)
	}
	fmt.Fprintf(a.out, "provider job %s at account %s, host %s\n", printable(at.providerJobID), at.account.Name, at.account.Host)
	if k := at.known; k != nil {
		fmt.Fprintf(a.out, "ledger: job %s at account %s is %s; provider job %s%s\n", k.JobID, k.Account, jobStateWord(*k), printable(k.ProviderJobID), ledgerSays(*k))
	} else {
		fmt.Fprintln(a.out, "ledger: knows no such job")
	}
	fmt.Fprintf(a.out, "HTTP %d, the provider's reference %s\n", answer.HTTPStatus, dash(answer.RequestID))
	if answer.RetryAfter > 0 {
		fmt.Fprintf(a.out, "it asks to wait for %s\n", answer.RetryAfter)
	}
	text, more := cut(string(pretty(answer.Body)), shownBody)
	fmt.Fprintln(a.out, visible(text))
	if more > 0 {
		fmt.Fprintf(a.out, "… and %d more bytes; --json shows them\n", more)
	}
	if answer.Cut {
		fmt.Fprintln(a.out, "the answer was cut: it is longer than 1 MiB, and what is behind that was not read")
	}
	return nil
}

// ledgerSays is the provider's last word that the ledger has, and what is next.
func ledgerSays(j reconcile.JobView) string {
	var s string
	if says := providerSays(j); says != "" {
		s += "; last told: " + printable(says)
	}
	if next := nextOfJob(j); next != "" {
		s += "; next: " + next
	}
	return s
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func (a *app) printInspectionJSON(at inspected, answer batch.Inspection) error {
	body := jsontext.Value(answer.Body)
	if !body.IsValid() {
		var err error
		if body, err = jsontext.AppendQuote(nil, strings.ToValidUTF8(string(answer.Body), string(utf8.RuneError))); err != nil {
			return fmt.Errorf("encode the answer: %w", err)
		}
	}
	v := inspectionView{answer.HTTPStatus, answer.RequestID, body, answer.Cut, at.providerJobID, at.account.Name, at.account.Host, at.known}
	out, err := json.Marshal(v, jsontext.WithIndent("  "), json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	// The escapes of visible are those of JSON, so this is the same value.
	_, err = fmt.Fprintln(a.out, visible(string(out)))
	return err
}

// shownBody is how many bytes of an answer a person is shown.
const shownBody = 64 << 10

// pretty is a body with the white space of a person, if it is JSON.
func pretty(body []byte) []byte {
	v := jsontext.Value(slices.Clone(body))
	if v.Indent(jsontext.WithIndent("  ")) != nil {
		return body
	}
	return v
}

// cut is the beginning of a text in whole characters, and how many bytes it lacks.
func cut(s string, limit int) (head string, lacks int) {
	if len(s) <= limit {
		return s, 0
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit], len(s) - limit
}

// visible is printable for a text of several lines: what could steer a terminal
// is shown as its escape in JSON, and a byte that is no character as \xNN.
func visible(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n' || r == '\t' || unicode.IsGraphic(r):
			b.WriteRune(r)
		default:
			for _, u := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, u)
			}
		}
	}
	return b.String()
}
