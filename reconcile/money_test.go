package reconcile_test

import (
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"rollcall/reconcile"
)

func TestParseMicros(t *testing.T) {
	for text, want := range map[string]reconcile.Micros{
		"0": 0, "0.00": 0, "25.00": 25_000_000, "25": 25_000_000, "0.4": 400_000, "0.000001": 1, "007.10": 7_100_000,
		"1000000000": reconcile.MaxMicros, "1000000000.000000": reconcile.MaxMicros,
	} {
		if got, err := reconcile.ParseMicros(text); err != nil || got != want {
			t.Errorf("%s is %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", " ", ".", "1.", ".5", "-1", "+1", "1e3", "1,5", "1 000", "0x10", "1.0000001", "1000000000.000001",
		"9999999999", "99999999999", "NaN", "Inf", "١", "１", "1\n", "25.00 EUR", "1_000"} {
		got, err := reconcile.ParseMicros(text)
		if err == nil || got != 0 {
			t.Errorf("%q is read as %d", text, got)
		} else if len(text) > 2 && strings.Contains(err.Error(), text) {
			t.Errorf("the error quotes what was written: %v", err)
		}
	}
}

func TestMicrosAreReadBackAsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := reconcile.Micros(rapid.Int64Range(0, int64(reconcile.MaxMicros)).Draw(t, "micros"))
		text := m.String()
		if back, err := reconcile.ParseMicros(text); err != nil || back != m {
			t.Fatalf("%d is %s, and that is %d, %v", m, text, back, err)
		}
		// The text is the number that it says, by exact arithmetic.
		said, ok := new(big.Rat).SetString(text)
		if !ok || said.Cmp(big.NewRat(int64(m), 1_000_000)) != 0 {
			t.Fatalf("%d is %s", m, text)
		}
		if _, places, _ := strings.Cut(text, "."); len(places) < 2 || len(places) > 6 || len(places) > 2 && strings.HasSuffix(places, "0") {
			t.Fatalf("%d is %s", m, text)
		}
	})
}

// TestCostIsTheExactOneRoundedUp compares with arithmetic without bounds.
func TestCostIsTheExactOneRoundedUp(t *testing.T) {
	count := rapid.OneOf(rapid.Int64Range(0, 100_000), rapid.Int64Range(0, math.MaxInt64))
	price := rapid.OneOf(rapid.Int64Range(0, 20_000_000), rapid.Int64Range(0, int64(reconcile.MaxPrice)))
	rapid.Check(t, func(t *rapid.T) {
		in, out := count.Draw(t, "input"), count.Draw(t, "output")
		p := reconcile.Price{Input: reconcile.Micros(price.Draw(t, "input price")), Output: reconcile.Micros(price.Draw(t, "output price"))}
		exact := new(big.Int).Mul(big.NewInt(in), big.NewInt(int64(p.Input)))
		exact.Add(exact, new(big.Int).Mul(big.NewInt(out), big.NewInt(int64(p.Output))))
		exact.Add(exact, big.NewInt(999_999)).Div(exact, big.NewInt(1_000_000))
		if limit := big.NewInt(int64(reconcile.MaxMicros)); exact.Cmp(limit) > 0 {
			exact = limit
		}
		if got := p.Cost(in, out); exact.Cmp(big.NewInt(int64(got))) != 0 {
			t.Fatalf("%d and %d tokens cost %d, want %s", in, out, got, exact)
		}
	})
}

// TestCostOfPartsIsNotBelowThatOfTheWhole: rounding never makes a bill smaller,
// and never larger by more than a millionth for each part.
func TestCostOfPartsIsNotBelowThatOfTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := reconcile.Price{Input: reconcile.Micros(rapid.Int64Range(0, 50_000_000).Draw(t, "in")), Output: reconcile.Micros(rapid.Int64Range(0, 50_000_000).Draw(t, "out"))}
		var sum reconcile.Micros
		var in, out int64
		parts := rapid.SliceOfN(rapid.Int64Range(0, 10_000), 1, 50).Draw(t, "tokens")
		for _, n := range parts {
			sum += p.Cost(n, n/3)
			in, out = in+n, out+n/3
		}
		whole := p.Cost(in, out)
		if sum < whole || sum > whole+reconcile.Micros(len(parts)) {
			t.Fatalf("the parts cost %d, the whole %d", sum, whole)
		}
	})
}

func TestCostOfOddCountsIsBounded(t *testing.T) {
	p := reconcile.Price{Input: reconcile.MaxPrice, Output: reconcile.MaxPrice}
	if got := p.Cost(math.MaxInt64, math.MaxInt64); got != reconcile.MaxMicros {
		t.Errorf("the most is %d", got)
	}
	if got := p.Cost(-5, math.MinInt64); got != 0 {
		t.Errorf("fewer than none cost %d", got)
	}
	if got := (reconcile.Price{}).Cost(math.MaxInt64, 1); got != 0 {
		t.Errorf("what is free costs %d", got)
	}
}
