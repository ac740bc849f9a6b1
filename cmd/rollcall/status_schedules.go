package main

import (
	"fmt"
	"slices"

	"rollcall/configs"
	"rollcall/reconcile"
)

// printSchedules shows what the daemon runs when. There is nothing to show where
// it never ran.
func (a *app) printSchedules(cfg *configs.Config, o reconcile.Overview) {
	if len(o.Schedules) == 0 {
		return
	}
	fmt.Fprintln(a.out)
	paint := painter(colours(a.out))
	t := newTable(a.out, "schedule", "next due", "last slot", "outcome", "missed", "")
	var late, failing []string
	for _, v := range o.Schedules {
		note := ""
		switch configured := slices.ContainsFunc(cfg.Schedules, func(s configs.Schedule) bool { return s.Name == v.Name }); {
		case !configured:
			note = "not in this configuration"
		case v.Failing():
			note = fmt.Sprintf("failing: the last %s", plural(int(v.FailedRuns), "run failed", "runs failed"))
			failing = append(failing, v.Name)
		case v.RunningSince != nil && stateOf(v, o.At, cfg.Serve.LateAfter.Std()) == "long":
			note = fmt.Sprintf("long: runs since %s at %s", when(*v.RunningSince), v.RunningAt)
		case v.RunningSince != nil:
			note = fmt.Sprintf("runs since %s at %s", when(*v.RunningSince), v.RunningAt)
		case v.Late(o.At, cfg.Serve.LateAfter.Std()):
			note = "late"
			late = append(late, v.Name)
		case v.Last != nil && v.Last.RetryAt != nil:
			note = "tried again at " + when(*v.Last.RetryAt)
		}
		last, outcome, missed := "", "", int64(0)
		if v.Last != nil {
			last, outcome, missed = when(v.Last.At), string(v.Last.Outcome), v.Last.Missed
		}
		t.row(v.Name, when(v.NextDue), last, outcome, missed, note)
	}
	_ = t.flush()
	if len(failing) > 0 {
		fmt.Fprintln(a.out, paint.bad(fmt.Sprintf("%s failing: see the daemon's log", plural(len(failing), "schedule is", "schedules are"))))
	}
	if len(late) > 0 {
		fmt.Fprintln(a.out, paint.bad(fmt.Sprintf("%s late: is `rollcall serve` running?", plural(len(late), "schedule is", "schedules are"))))
	}
}
