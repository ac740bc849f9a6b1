package schedule_test

import (
	"fmt"
	"time"

	"rollcall/reconcile/schedule"
)

// The clocks of Berlin go from 02:00 to 03:00 on 29 March 2026.
func ExampleSchedule_Next() {
	nightly, err := schedule.Parse("30 2 * * *", "Europe/Berlin")
	if err != nil {
		fmt.Println(err)
		return
	}
	at := time.Date(2026, time.March, 28, 0, 0, 0, 0, time.UTC)
	for range 3 {
		at = nightly.Next(at)
		fmt.Println(at.Format(time.RFC3339))
	}
	// Output:
	// 2026-03-28T01:30:00Z
	// 2026-03-29T01:00:00Z
	// 2026-03-30T00:30:00Z
}

// The daemon was down for three nights: one run stands for all.
func ExampleSchedule_Missed() {
	nightly, err := schedule.Parse("@daily", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	due := time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)
	latest, missed, more := nightly.Missed(due, due.Add(75*time.Hour), 1000)
	fmt.Println(latest.Format(time.RFC3339), missed, more)
	// Output: 2026-03-04T00:00:00Z 3 false
}
