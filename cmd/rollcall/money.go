package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"rollcall/reconcile"
)

// printSpend shows what each policy's submissions come to, today and in all.
func (a *app) printSpend(spend []reconcile.SpendView) {
	if len(spend) == 0 {
		return
	}
	fmt.Fprintln(a.out, "\nspend by policy (days in UTC):")
	t := newTable(a.out, "policy", "currency", "cost today", "estimate today", "counted today", "cost in all", "estimate in all", "usage unknown")
	for _, s := range spend {
		if s.Currency == "" {
			t.row(s.Policy, "no price", "", "", "", "", "", s.Total.UnknownItems)
			continue
		}
		t.row(s.Policy, s.Currency, s.Today.Cost, s.Today.Estimate, s.Today.Counted, s.Total.Cost, s.Total.Estimate, s.Total.UnknownItems)
	}
	_ = t.flush()
}

// costLine is what a submission may take, in words.
func costLine(c reconcile.CostView) string {
	if c.EstimatedInput == nil || c.MaxOutput == nil {
		return ""
	}
	s := fmt.Sprintf("%d tokens in, %d out at most", *c.EstimatedInput, *c.MaxOutput)
	if c.Estimate != nil {
		s += fmt.Sprintf(", %s %s", *c.Estimate, c.Currency)
	}
	return s
}

// usedLine is what the items of a submission took, in words.
func usedLine(c reconcile.CostView) string {
	var parts []string
	if c.InputTokens > 0 || c.OutputTokens > 0 {
		parts = append(parts, fmt.Sprintf("%d tokens in, %d out", c.InputTokens, c.OutputTokens))
		if c.Cost != nil {
			parts = append(parts, fmt.Sprintf("%s %s", *c.Cost, c.Currency))
		}
	}
	if c.UnknownItems > 0 {
		parts = append(parts, plural(int(c.UnknownItems), "item", "items")+" of unknown usage")
	}
	return strings.Join(parts, ", ")
}

// readyJob is a job that is ready to be sent, with what it may take.
type readyJob struct {
	JobID      string              `json:"job_id"`
	Policy     string              `json:"policy"`
	Items      int64               `json:"items"`
	NextSubmit *time.Time          `json:"next_submit,omitempty"`
	WaitsFor   reconcile.LimitWord `json:"waits_for,omitempty"`
	Estimate   *reconcile.CostView `json:"estimate,omitempty"` // none where the configuration does not offer its account
}

// readyListed is how many ready jobs a dry run lists.
const readyListed = 50

// estimateReady lists ready jobs with what they may take.
func (d *deployment) estimateReady(ctx context.Context) ([]readyJob, error) {
	jobs, err := d.store.Jobs(ctx, []reconcile.JobState{reconcile.JobReady}, readyListed)
	if err != nil {
		return nil, err
	}
	out := make([]readyJob, 0, len(jobs))
	for _, j := range jobs {
		h, err := d.store.JobHistory(ctx, j.JobID)
		if errors.Is(err, reconcile.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := d.addEstimate(ctx, &h); err != nil {
			return nil, err
		}
		out = append(out, readyJob{JobID: j.JobID, Policy: j.Policy, Items: j.Items, NextSubmit: j.NextSubmit, WaitsFor: j.WaitsFor, Estimate: h.Estimate})
	}
	return out, nil
}

// addEstimate tells what a job may take that is not sent. It needs the account
// as it is configured; where there is none, the job is shown without.
func (d *deployment) addEstimate(ctx context.Context, h *reconcile.JobHistory) error {
	if h.State != reconcile.JobPlanning && h.State != reconcile.JobReady {
		return nil
	}
	r, err := d.reconciler()
	if err != nil {
		return nil // config check and doctor say what is wrong with it
	}
	key, err := reconcile.ParsePolicyKey(h.Policy)
	if err != nil {
		return err
	}
	e, err := r.EstimateJob(ctx, key, h.Items, h.ContentBytes)
	if errors.Is(err, reconcile.ErrNoEstimate) {
		return nil
	}
	if err != nil {
		return err
	}
	view := e.View()
	h.Estimate = &view
	return nil
}

// printReady lists what the ready jobs may take.
func (a *app) printReady(jobs []readyJob) error {
	if len(jobs) == 0 {
		return nil
	}
	fmt.Fprintln(a.out, "\njobs that are ready, and what each may take:")
	t := newTable(a.out, "job", "policy", "items", "not before", "waits for", "estimate")
	for _, j := range jobs {
		var estimate string
		if j.Estimate != nil {
			estimate = costLine(*j.Estimate)
		}
		t.row(j.JobID, j.Policy, j.Items, whenp(j.NextSubmit), string(j.WaitsFor), estimate)
	}
	return t.flush()
}
