package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"rollcall/batch"
	"rollcall/batch/infrai"
)

// accounts looks at each account. Unless it may try, it sends no text and costs
// nothing.
func (x *examination) accounts(ctx context.Context) {
	if x.keys == nil {
		return // their fingerprints are made with it, and it is told that there is none
	}
	d := &deployment{config: x.config, keys: x.keys, log: zerolog.Nop()}
	for _, c := range x.config.Accounts {
		if len(x.only) > 0 && !slices.Contains(x.only, c.Name) {
			continue
		}
		check := "account " + c.Name
		client, err := d.client(c)
		if err != nil {
			x.wrong(check, mendConfig, err)
			continue
		}
		x.account(ctx, check, client)
		if x.try {
			x.tries(ctx, client)
		}
		if c, ok := client.(interface{ CloseIdleConnections() }); ok {
			c.CloseIdleConnections()
		}
	}
}

func (x *examination) account(ctx context.Context, check string, p client) {
	about := aboutAccount(p)
	switch p := p.(type) {
	case batch.Inventory:
		x.listed(ctx, check, about, p)
	case *infrai.Client:
		x.gated(ctx, check, about, p)
	case batch.Caller:
		if !x.try {
			about += "; it was not asked, since each call costs something: rollcall provider check " + p.Account().Name + " --try"
		}
		x.ok(check, "%s", about)
	default:
		x.ok(check, "%s; it lists no jobs, so it was not asked", about)
	}
}

// aboutAccount is what is known of an account without a call.
func aboutAccount(p client) string {
	a := p.Account()
	return fmt.Sprintf("host %s, region %s; %s", a.Host, dash(a.Region), settlementWord(p.Capabilities().Settlement))
}

// listed asks an account for one page of its jobs.
func (x *examination) listed(ctx context.Context, check, about string, inv batch.Inventory) {
	began := time.Now()
	page, err := inv.ListJobs(ctx, "")
	if err != nil {
		x.accountFault(check, about, err)
		return
	}
	x.ok(check, "%s; it accepts the key and lists %s on its first page, in %s", about, plural(len(page.Jobs), "job", "jobs"), time.Since(began).Round(time.Millisecond))
}

// gated asks whether the provider's documents are those of the pin, and says
// which gate is closed.
func (x *examination) gated(ctx context.Context, check, about string, p *infrai.Client) {
	pinned := p.Check(ctx)
	if gate := p.Gate(); gate != "" {
		x.warn(check, gateRemedy(gate), "%s; nothing is sent to it: %s", about, gate)
		return
	}
	if pinned != nil {
		x.accountFault(check, about, pinned)
		return
	}
	x.ok(check, "%s; its documents are those of the pin, and each gate is open", about)
}

// gateRemedies say what opens a gate of Infrai.
var gateRemedies = map[string]string{
	"gate_pin_missing":              "fetch the provider's discovery documents, write down what they say, run: rollcall provider pin infrai FILE…, and name the pin in infrai.pin",
	"gate_item_not_pinned":          "the pin does not say how an item is named, or how its answer is bounded: read that out of a document and make the pin anew",
	"gate_states_not_pinned":        "the pin does not say which states there are: read that out of a document and make the pin anew",
	"gate_results_not_pinned":       "the pin does not say how results come back: read that out of a document and make the pin anew",
	"gate_item_vendor_not_pinned":   "the pin does not say where an item names who served it: read that out of a document and make the pin anew",
	"gate_vendors_empty":            "name the upstreams whose answers are accepted in infrai.vendors",
	"gate_data_class_not_permitted": "write what kind the texts are of in infrai.data_class; what the pin permits is synthetic, and more only under an agreement that it names",
	"gate_documents_differ":         "the provider's documents changed: fetch them again, read what is new, and make the pin anew: rollcall provider pin infrai FILE…",
	"gate_second_job_for_key":       "the provider made two jobs under one key, so a repeat is not safe there: tell the provider, and use another account; a restart opens the gate",
}

func gateRemedy(gate string) string {
	if r, ok := gateRemedies[gate]; ok {
		return r
	}
	return "see what the gate is for in the README"
}

// accountFault tells an account that refuses from one that could not be asked.
func (x *examination) accountFault(check, about string, err error) {
	state, remedy, what := accountFault(err)
	x.note(check, state, remedy, "%s; %s: %v", about, what, err)
}

func accountFault(err error) (state health, remedy, what string) {
	if e := (*batch.Error)(nil); errors.As(err, &e) && e.Code == batch.CodeNoKey {
		return healthBad, "write the key into the file, or the variable, that api_key names; it is read again for each call", "there is no key to ask it with"
	}
	switch batch.KindOf(err) {
	case batch.Denied:
		return healthBad, "check its key, project and region at the provider; the key is read again for each call", "it refuses the key"
	case batch.OutOfCredit:
		return healthBad, "top the account up", "its money or quota is used up"
	case batch.NotFound, batch.Rejected, batch.BadAnswer:
		return healthBad, "check base_url in the configuration, and whether something stands in the provider's place", "its answer is none of this API"
	}
	return healthUnknown, "check the network and the provider's status; then run: rollcall doctor", "it could not be asked"
}

// settlementWord says how a lost answer to a create is settled.
func settlementWord(s batch.Settlement) string {
	return map[batch.Settlement]string{
		batch.SettleByListing:  "a lost answer is settled by its list of jobs",
		batch.SettleByResults:  "a lost answer is settled by the results of ended jobs only",
		batch.SettleByKey:      "a lost answer is settled by the same request under the same key",
		batch.SettleByRepeat:   "a lost answer is settled by a repeat",
		batch.SettleByOperator: "a lost answer is settled by an operator: nothing there tells",
	}[s]
}
