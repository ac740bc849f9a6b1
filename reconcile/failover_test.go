package reconcile_test

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"testing"

	"rollcall/reconcile"
	"rollcall/sql"
	"rollcall/sql/sqltest"
)

// twoHosts is the address of a pair of servers, whichever of them can be written to.
func twoHosts(t *testing.T, first, second *sqltest.Cluster) string {
	t.Helper()
	u, err := url.Parse(first.URL())
	if err != nil {
		t.Fatal(err)
	}
	u.Host = first.HostPort() + "," + second.HostPort()
	return u.String()
}

// F47: a fail-over to a standby that had not got the last commits is noticed
// before anything is sent, and made whole without sending a text again. One to a
// standby that had them is not taken for one.
func TestF47_FailOverThatLostCommits(t *testing.T) {
	for name, lost := range map[string]bool{"nothing is lost": false, "the acceptance is lost": true} {
		t.Run(name, func(t *testing.T) {
			primary := sqltest.NewCluster(t)
			standby := primary.Standby(!lost)
			l := sqltest.OpenWith(t, twoHosts(t, primary, standby), sql.Options{})
			b := newBenchOf(t, l, standby.URL()) // a connection is made once it is the primary
			b.witnessed(filepath.Join(t.TempDir(), "witness"))
			b.reports(3)
			b.collect()
			primary.Await("EXISTS (SELECT 1 FROM pg_stat_replication WHERE replay_lsn = pg_current_wal_lsn())")
			if lost {
				primary.FreezeReplication()
			}
			b.submit()
			primary.Crash()
			standby.Promote()
			_, err := b.r.Submit(t.Context(), b.Clock.Now())
			if got := errors.Is(err, reconcile.ErrRewound); got != lost {
				t.Fatalf("submit after the fail-over: %v", err)
			}
			if lost {
				b.wantFindings("ledger_rewound")
				if out := b.recover(reconcile.RecoverOptions{}); !out.Complete || len(out.Jobs) != 1 {
					t.Errorf("recovery %+v", out)
				}
				b.goOn()
			}
			if _, err := b.untilIdle(nil); err != nil {
				t.Fatal(err)
			}
			b.want("records", "SELECT COUNT(*) || '' FROM review_records WHERE authoritative = 1", "3")
			for i := range 3 {
				if n := b.fake.Uploaded(reportText(fmt.Sprint("r", i+1), 1)); n != 1 {
					t.Errorf("text %d was sent %d times", i+1, n)
				}
			}
		})
	}
}
