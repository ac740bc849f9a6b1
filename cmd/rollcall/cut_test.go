package main

import (
	"testing"

	"rollcall/reconcile"
	"rollcall/sql/sqltest"
)

// TestF36_CleanlyCutFileIsNotBoughtTwice: the download ends at the end of a
// line, and nothing but the provider's counts tells that lines are missing.
func TestF36_CleanlyCutFileIsNotBoughtTwice(t *testing.T) {
	for _, database := range sqltest.Databases {
		t.Run(database, func(t *testing.T) {
			o := newOperator(t, database, "content_cut:at=0.5,times=1,clean=true")
			o.must(exitDone, "intake", o.file("r.jsonl", threeReports))
			o.must(exitDone, "run", "--until-idle")
			b, err := o.box.Books()
			if err != nil || b.Works.Distinct != 3 || b.Works.InMoreThanOneJob != 0 {
				t.Errorf("the sandbox's books %+v, %v: a text was sent again", b.Works, err)
			}
			if view := asJSON[reconcile.Overview](o, exitDone, "status"); view.Works[reconcile.StageRecorded] != 3 || view.OpenFindings != 0 {
				t.Errorf("works %v, %d open findings", view.Works, view.OpenFindings)
			}
		})
	}
}
