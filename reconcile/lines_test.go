package reconcile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// readLines reads everything.
func readLines(t *testing.T, src io.Reader, limit int) ([]rawLine, error) {
	t.Helper()
	r := newLineReader(src, limit, sha256.New)
	var lines []rawLine
	for {
		l, err := r.next()
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err != nil {
			return lines, err
		}
		lines = append(lines, l)
	}
}

func TestLinesAreSplitOnLineFeedsAlone(t *testing.T) {
	const limit = 200_000
	big := strings.Repeat("x", 150_000) // several buffers long
	for name, tc := range map[string]struct {
		in   string
		want []string
		cut  bool
	}{
		"empty file":               {"", nil, false},
		"only a mark":              {"\xEF\xBB\xBF", nil, false},
		"one line":                 {"a\n", []string{"a"}, false},
		"no last line feed":        {"a\nb", []string{"a", "b"}, true},
		"blank lines count":        {"a\n\n\r\nb\n", []string{"a", "", "\r", "b"}, false},
		"mark at the start":        {"\xEF\xBB\xBFa\n", []string{"a"}, false},
		"mark elsewhere is data":   {"a\n\xEF\xBB\xBFb\n", []string{"a", "\xEF\xBB\xBFb"}, false},
		"one mark of two":          {"\xEF\xBB\xBF\xEF\xBB\xBFa\n", []string{"\xEF\xBB\xBFa"}, false},
		"line separators are data": {"a\u2028b\u2029c\u0085d\re\n", []string{"a\u2028b\u2029c\u0085d\re"}, false},
		"long line":                {big + "\nb\n", []string{big, "b"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, src := range []io.Reader{strings.NewReader(tc.in), iotest.OneByteReader(strings.NewReader(tc.in))} {
				got, err := readLines(t, src, limit)
				if err != nil {
					t.Fatal(err)
				}
				if len(got) != len(tc.want) {
					t.Fatalf("%d lines, want %d", len(got), len(tc.want))
				}
				for i, l := range got {
					if string(l.body) != tc.want[i] || l.number != int64(i+1) || l.bytes != int64(len(tc.want[i])) || l.long {
						t.Errorf("line %d: number %d, %d bytes, long %v", i+1, l.number, l.bytes, l.long)
					}
					if wantCut := tc.cut && i == len(got)-1; l.cut != wantCut {
						t.Errorf("line %d: cut %v, want %v", i+1, l.cut, wantCut)
					}
				}
			}
		})
	}
}

func TestF35_OverLongLineIsReadPast(t *testing.T) {
	long := strings.Repeat("0123456789", 40_000)
	sum := sha256.Sum256([]byte(long))
	got, err := readLines(t, strings.NewReader("a\n"+long+"\nb\n"), 100_000)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 || string(got[2].body) != "b" {
		t.Fatalf("reading did not go on behind the line: %d lines", len(got))
	}
	l := got[1]
	if !l.long || l.bytes != int64(len(long)) || l.mac != hex.EncodeToString(sum[:]) {
		t.Errorf("long %v, %d bytes, digest right: %v", l.long, l.bytes, l.mac == hex.EncodeToString(sum[:]))
	}
	if len(l.body) != keptOfMalformed || cap(l.body) > 2*keptOfMalformed {
		t.Errorf("%d bytes are kept, of capacity %d", len(l.body), cap(l.body))
	}
}

func TestF29_BrokenDownloadIsNotTheEnd(t *testing.T) {
	for _, in := range []string{"", "a\nb\n", "a\nb"} {
		_, err := readLines(t, io.MultiReader(strings.NewReader(in), iotest.ErrReader(io.ErrUnexpectedEOF)), 100)
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("after %q: %v", in, err)
		}
	}
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nb\n\n\r\n\xEF\xBB\xBFc"), 3)
	f.Add([]byte("\xEF\xBB\xBFabcdef\n"), 2)
	for _, s := range []string{"", "\n", "\r\n\r\n", "\xEF\xBB", "\xEF\xBB\xBF\xEF\xBB\xBF\n", "a\u2028b\u0085c\x0bd\n", "a\x00b\n\x00", "\xff\xfe\n", strings.Repeat("x", 4096), strings.Repeat("\n", 4096)} {
		f.Add([]byte(s), 16)
	}
	f.Fuzz(func(t *testing.T, in []byte, limit int) {
		limit = 1 + max(limit, -limit, 0)%128
		lines, err := readLines(t, iotest.HalfReader(bytes.NewReader(in)), limit)
		if err != nil {
			t.Fatal(err)
		}
		rest := bytes.TrimPrefix(in, []byte("\xEF\xBB\xBF"))
		for i, l := range lines {
			want, after, found := bytes.Cut(rest, []byte("\n"))
			if l.bytes != int64(len(want)) || l.cut == found || l.long != (len(want) > limit) {
				t.Fatalf("line %d: %d bytes, cut %v, long %v; want %d bytes", i, l.bytes, l.cut, l.long, len(want))
			}
			if !l.long && !bytes.Equal(l.body, want) || l.long && !bytes.HasPrefix(want, l.body) {
				t.Fatalf("line %d holds other bytes", i)
			}
			rest = after
		}
		if len(rest) != 0 {
			t.Fatalf("%d bytes are in no line", len(rest))
		}
	})
}
