package contentsafety

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rollcall/batch"
	"rollcall/batch/post"
)

func client(segment int) *Client { return &Client{cfg: Config{Segment: segment}} }

// piece is where a segment stands in the text, in bytes.
type piece struct{ start, end int }

// pieces finds where the segments stand. Each begins at the last place before the
// end of the one before it, since the segments are cut from a random text; where
// a text repeats itself, the rules of Split tell which place is meant.
func pieces(t *rapid.T, text string, segments []batch.Text) []piece {
	var out []piece
	end := 0
	for i, s := range segments {
		start := 0
		if i > 0 {
			start = afterSpace(text, backward(text, end, overlap))
		}
		end = start + s.Len()
		if end > len(text) || text[start:end] != s.Reveal() {
			t.Fatalf("segment %d of %d is not of the text at %d", i, len(segments), start)
		}
		out = append(out, piece{start, end})
	}
	return out
}

// texts are of what reports are of, and of what they should not be: long words,
// white space alone, other scripts, and bytes that are not UTF-8.
func texts() *rapid.Generator[string] {
	part := rapid.SampledFrom([]string{"a", " ", "\n", "wort ", "ä", "字", "🩺", "👩‍👩‍👧", "e\u0301", "\xff", "\xe2\x82", "\u2029", "\u00a0", strings.Repeat("x", 150), strings.Repeat("字", 120), strings.Repeat(" ", 130)})
	return rapid.Custom(func(t *rapid.T) string {
		var b strings.Builder
		for _, p := range rapid.SliceOfN(part, 0, 40).Draw(t, "parts") {
			b.WriteString(strings.Repeat(p, rapid.IntRange(1, 60).Draw(t, "times")))
		}
		return b.String()
	})
}

// Every code point is in a segment, a passage that is no longer than the overlap
// is whole in one, and none is longer than a call takes.
func TestSplitLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, limit := texts().Draw(t, "text"), rapid.IntRange(minSegment, 1_200).Draw(t, "segment")
		c := client(limit)
		segments, err := c.Split(nil, batch.NewText(text))
		if err != nil || len(segments) == 0 {
			t.Fatalf("%d segments, %v", len(segments), err)
		}
		all := pieces(t, text, segments)
		if all[0].start != 0 || all[len(all)-1].end != len(text) {
			t.Fatalf("from %d to %d of %d", all[0].start, all[len(all)-1].end, len(text))
		}
		for i, p := range all {
			n := utf8.RuneCountInString(text[p.start:p.end])
			if n > limit || i > 0 && utf8.RuneCountInString(post.Valid(text[p.start:p.end])) != n {
				t.Errorf("segment %d has %d code points, and may have %d", i, n, limit)
			}
			if i == 0 {
				continue
			}
			before := all[i-1]
			shared := utf8.RuneCountInString(text[p.start:before.end])
			if p.start <= before.start || p.end <= before.end || shared < overlap || shared > overlap+slack {
				t.Errorf("segment %d at %+v shares %d with the one at %+v", i, p, shared, before)
			}
			for _, cut := range []int{before.end, p.start} {
				atSpace := false
				near := text[backward(text, cut, slack-1):cut]
				if near != "" {
					r, _ := utf8.DecodeLastRuneInString(near)
					atSpace = unicode.IsSpace(r)
				}
				if !atSpace && strings.IndexFunc(near, unicode.IsSpace) >= 0 {
					t.Errorf("cut inside of a word at %d, with white space near", cut)
				}
			}
		}
		if len(all) > 1 && utf8.RuneCountInString(text) <= limit {
			t.Errorf("a text of %d code points became %d segments", utf8.RuneCountInString(text), len(all))
		}
	})
}

// Join is the highest severity of each category that all segments have.
func TestJoinIsTheHighest(t *testing.T) {
	severities := rapid.MapOf(rapid.SampledFrom(categories), rapid.Float64Range(0, MaxSeverity))
	rapid.Check(t, func(t *rapid.T) {
		segments := rapid.SliceOfN(severities, 2, 6).Draw(t, "segments")
		var results []batch.Result
		want := map[string]float64{}
		for _, category := range categories {
			high, everywhere := 0.0, true
			for _, s := range segments {
				score, ok := s[category]
				high, everywhere = max(high, score), everywhere && ok
			}
			if everywhere {
				want[category] = high
			}
		}
		for _, s := range segments {
			results = append(results, answered(batch.Result{CustomID: "w1"}, s))
		}
		got := client(MaxSegment).Join(nil, results)
		anyEmpty := false
		for _, s := range segments {
			anyEmpty = anyEmpty || len(s) == 0
		}
		if anyEmpty || len(want) == 0 {
			if got.Outcome != batch.BadShape || len(got.Content) != 0 {
				t.Fatalf("%s %s", got.Outcome, got.Content)
			}
			return
		}
		if diff := cmp.Diff(answered(batch.Result{CustomID: "w1"}, want), got); diff != "" {
			t.Fatal(diff)
		}
		rand.Shuffle(len(results), func(a, b int) { results[a], results[b] = results[b], results[a] })
		if again := client(MaxSegment).Join(nil, results); !bytes.Equal(again.Content, got.Content) {
			t.Fatalf("another order gave %s, not %s", again.Content, got.Content)
		}
	})
}

func BenchmarkSplit(b *testing.B) {
	for name, text := range map[string]string{
		"short":     strings.Repeat("stop your insulin ", 60),
		"words":     strings.Repeat("stop your insulin ", 20_000),
		"ideograms": strings.Repeat("字", 120_000),
	} {
		b.Run(name, func(b *testing.B) {
			c, t := client(MaxSegment), batch.NewText(text)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Split(nil, t); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	body := []byte(`{"blocklistsMatch":[],"categoriesAnalysis":[{"category":"Hate","severity":3},{"category":"SelfHarm","severity":1},{"category":"Sexual","severity":0},{"category":"Violence","severity":0}]}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if r := decode(body); r.Outcome != batch.Answered {
			b.Fatal(r.Outcome)
		}
	}
}
