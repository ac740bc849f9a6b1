package main

import (
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"rollcall/batch"
	"rollcall/batch/openai"
	"rollcall/configs"
)

// accounts asks each account for one page of its jobs.
func (x *examination) accounts(ctx context.Context) {
	if x.keys == nil {
		return // their fingerprints are made with it, and it is told that there is none
	}
	d := &deployment{config: x.config, keys: x.keys, log: zerolog.Nop()}
	for _, c := range x.config.Accounts {
		check := "account " + c.Name
		if _, err := c.APIKey.Read(); err != nil {
			x.wrong(check, mendConfig, err)
			continue
		}
		client, err := openai.New(d.clientConfig(c))
		if err != nil {
			x.wrong(check, mendConfig, err)
			continue
		}
		x.account(ctx, check, client, c)
		client.CloseIdleConnections()
	}
}

func (x *examination) account(ctx context.Context, check string, p batch.Provider, c configs.Account) {
	about := fmt.Sprintf("host %s, region %s; %s", p.Account().Host, dash(c.Region), settlementWord(p.Capabilities().Settlement))
	inv, ok := p.(batch.Inventory)
	if !ok {
		x.ok(check, "%s; it lists no jobs, so it was not asked", about)
		return
	}
	began := time.Now()
	page, err := inv.ListJobs(ctx, "")
	if err != nil {
		x.accountFault(check, about, err)
		return
	}
	x.ok(check, "%s; it accepts the key and lists %s on its first page, in %s", about, plural(len(page.Jobs), "job", "jobs"), time.Since(began).Round(time.Millisecond))
}

// accountFault tells an account that refuses from one that could not be asked.
func (x *examination) accountFault(check, about string, err error) {
	switch batch.KindOf(err) {
	case batch.Denied:
		x.bad(check, "check its key, project and region at the provider; the key is read again for each call", "%s; it refuses the key: %v", about, err)
	case batch.OutOfCredit:
		x.bad(check, "top the account up", "%s; its money or quota is used up: %v", about, err)
	case batch.NotFound, batch.Rejected, batch.BadAnswer:
		x.bad(check, "check base_url in the configuration, and whether something stands in the provider's place", "%s; its answer is none of this API: %v", about, err)
	default:
		x.note(check, healthUnknown, "check the network and the provider's status; then run: rollcall doctor", "%s; it could not be asked: %v", about, err)
	}
}

// settlementWord says how a lost answer to a create is settled.
func settlementWord(s batch.Settlement) string {
	return map[batch.Settlement]string{
		batch.SettleByListing: "a lost answer is settled by its list of jobs",
		batch.SettleByResults: "a lost answer is settled by the results of ended jobs only",
		batch.SettleByKey:     "a lost answer is settled by the same request under the same key",
		batch.SettleByRepeat:  "a lost answer is settled by a repeat",
	}[s]
}
