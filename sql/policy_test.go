package sql_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall/reconcile"
	"rollcall/sql/sqltest"
)

func TestApprovedPolicyIsReadBackWhole(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		want := l.Approve(t, sqltest.Policy("forum", 1))
		for range 2 { // again by the same actor changes nothing
			l.Approve(t, sqltest.Policy("forum", 1))
		}
		got, err := l.Policy(t.Context(), want.Key())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(*want, got); diff != "" {
			t.Error(diff)
		}
		all, err := l.Policies(t.Context())
		if err != nil || len(all) != 1 {
			t.Errorf("policies: %v, %v", all, err)
		}
		if _, err := l.Policy(t.Context(), reconcile.PolicyKey{ID: "forum", Version: 2}); !errors.Is(err, reconcile.ErrNotFound) {
			t.Errorf("a version that is not there: %v", err)
		}
	})
}

func TestChangedPolicyNeedsANewVersion(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, l *sqltest.Ledger) {
		l.Approve(t, sqltest.Policy("forum", 1))
		changed := sqltest.Policy("forum", 1)
		changed.Classifier.Model = "another-model"
		v, err := reconcile.NewPolicyVersion(changed, l.Keys)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.ApprovePolicy(t.Context(), l.Clock.Now(), v, "test", "a test", "none"); !errors.Is(err, reconcile.ErrMoved) {
			t.Errorf("a changed text under the same version: %v", err)
		}
	})
}
