package reconcile

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rollcall/reconcile/schedule"
)

func nightly(t *testing.T) *Scheduled {
	t.Helper()
	plan, err := schedule.Parse("0 1 * * *", "UTC")
	if err != nil {
		t.Fatal(err)
	}
	return &Scheduled{Name: "nightly", Expression: "0 1 * * *", Zone: "UTC", Plan: plan}
}

func TestRuleOfASchedule(t *testing.T) {
	s := nightly(t)
	night := func(day int) time.Time { return time.Date(2026, 3, day, 1, 0, 0, 0, time.UTC) }
	noon := night(5).Add(11 * time.Hour)
	soon, past, wrong := noon.Add(time.Minute), noon.Add(-time.Minute), noon.Add(24*time.Hour)
	over := &Slot{At: night(5), FinishedAt: &past, Outcome: SlotDone}
	for name, tc := range map[string]struct {
		due  time.Time
		last *Slot
		want SlotRuling
	}{
		"not due":                {night(6), over, SlotRuling{NextDue: night(6)}},
		"never run":              {night(6), nil, SlotRuling{NextDue: night(6)}},
		"due now":                {noon, over, SlotRuling{NextDue: night(6), Begin: noon}},
		"due this night":         {night(5), nil, SlotRuling{NextDue: night(6), Begin: night(5)}},
		"three missed":           {night(2), over, SlotRuling{NextDue: night(6), Begin: night(5), Missed: 3}},
		"a clock was ahead":      {night(9), over, SlotRuling{NextDue: night(6)}},
		"died":                   {night(6), &Slot{At: night(5)}, SlotRuling{NextDue: night(6), Again: true}},
		"told to end":            {night(6), &Slot{At: night(5), RetryAt: &past, Outcome: SlotInterrupted}, SlotRuling{NextDue: night(6), Again: true}},
		"failed, waits":          {night(6), &Slot{At: night(5), RetryAt: &soon, Outcome: SlotFailed}, SlotRuling{NextDue: night(6)}},
		"failed, has waited":     {night(6), &Slot{At: night(5), RetryAt: &past, Outcome: SlotFailed}, SlotRuling{NextDue: night(6), Again: true}},
		"waits by a wrong clock": {night(6), &Slot{At: night(5), RetryAt: &wrong, Outcome: SlotFailed}, SlotRuling{NextDue: night(6), Again: true}},
		"died, and the next is due": {night(5), &Slot{At: night(3)},
			SlotRuling{NextDue: night(6), Begin: night(5), End: SlotInterrupted}},
		"failed, and the next is due": {night(4), &Slot{At: night(3), RetryAt: &past, Outcome: SlotFailed},
			SlotRuling{NextDue: night(6), Begin: night(5), Missed: 1, End: SlotFailed}},
		"begun by a clock that was ahead": {night(5), &Slot{At: night(5)}, SlotRuling{NextDue: night(6), Again: true}},
		"begun long ahead, waits":         {night(5), &Slot{At: night(8), RetryAt: &soon, Outcome: SlotHeld}, SlotRuling{NextDue: night(6)}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := s.rule(ScheduleView{Name: "nightly", Cron: "0 1 * * *", Zone: "UTC", NextDue: tc.due, Last: tc.last}, noon)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("ruling (-want +got):\n%s", diff)
			}
		})
	}
	for name, v := range map[string]ScheduleView{"expression": {Cron: "0 2 * * *", Zone: "UTC"}, "zone": {Cron: "0 1 * * *", Zone: "Europe/Berlin"}} {
		if got, err := s.rule(v, noon); !errors.Is(err, ErrOtherPlan) || got != (SlotRuling{}) {
			t.Errorf("another %s: %+v, %v", name, got, err)
		}
	}
	end := time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
	if _, err := s.rule(ScheduleView{Cron: "0 1 * * *", Zone: "UTC", NextDue: end}, end); !errors.Is(err, ErrNeverDue) {
		t.Errorf("a schedule that never comes: %v", err)
	}
}

// A stop of years is one run, and it is soon known how many are missing.
func TestRuleBehindALongStop(t *testing.T) {
	plan, err := schedule.Parse("* * * * *", "UTC")
	if err != nil {
		t.Fatal(err)
	}
	s := &Scheduled{Expression: "* * * * *", Zone: "UTC", Plan: plan}
	now := time.Date(2026, 3, 5, 12, 0, 30, 0, time.UTC)
	got, err := s.rule(ScheduleView{Cron: "* * * * *", Zone: "UTC", NextDue: now.AddDate(-3, 0, 0).Truncate(time.Minute)}, now)
	want := SlotRuling{NextDue: now.Add(30 * time.Second), Begin: now.Add(-30 * time.Second), Missed: missedLimit}
	if err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

func TestSlotWait(t *testing.T) {
	for begun, want := range map[int64]time.Duration{1: time.Minute, 2: 2 * time.Minute, 6: 32 * time.Minute, 7: time.Hour, 1 << 40: time.Hour} {
		if got := slotWait(begun); got != want {
			t.Errorf("behind run %d: %s, want %s", begun, got, want)
		}
	}
}

func TestScheduleIsLate(t *testing.T) {
	now := time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for name, tc := range map[string]struct {
		v    ScheduleView
		want bool
	}{
		"not due":             {ScheduleView{NextDue: now.Add(time.Hour)}, false},
		"just due":            {ScheduleView{NextDue: ago(5 * time.Minute)}, false},
		"overdue":             {ScheduleView{NextDue: ago(6 * time.Minute)}, true},
		"overdue and running": {ScheduleView{NextDue: ago(time.Hour), RunningSince: new(ago(time.Hour)), Last: &Slot{At: ago(2 * time.Hour)}}, false},
		"not done":            {ScheduleView{NextDue: now.Add(time.Hour), Last: &Slot{At: ago(time.Hour), Outcome: SlotFailed}}, true},
		"done":                {ScheduleView{NextDue: now.Add(time.Hour), Last: &Slot{At: ago(time.Hour), Outcome: SlotDone, FinishedAt: &now}}, false},
	} {
		if got := tc.v.Late(now, 5*time.Minute); got != tc.want {
			t.Errorf("%s: late is %v", name, got)
		}
	}
}
