package reconcile_test

import (
	"testing"

	"rollcall/reconcile"
)

// What only the primary has is put on record once a pass is over, and once.
func TestF46_UnreplicatedCommitsAreTold(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		left := int64(2)
		b.r.Unreplicated = func() int64 { n := left; left = 0; return n }
		for range 2 {
			if _, err := b.r.Run(t.Context(), reconcile.PassPoll); err != nil {
				t.Fatal(err)
			}
		}
		b.want("findings", "SELECT name || ' ' || severity || ' ' || detail || ' ' || seen FROM findings", "commit_unreplicated critical 2 commits 1")
	})
}
