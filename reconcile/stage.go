package reconcile

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/errgroup"

	"rollcall/batch"
	"rollcall/reconcile/crashpoint"
	"rollcall/reconcile/keyring"
)

var (
	// errTorn: the file was not read to its end. It is fetched again.
	errTorn = errors.New("the result file is cut short")
	// errTooLarge: the file is larger than Settings.SetBytes, or has far more
	// lines than its job has members.
	errTooLarge = errors.New("the result file is larger than the limit")
)

const (
	// chunkBytes bounds what one chunk holds of a result file, and about what
	// the texts that belong to it hold.
	chunkBytes = 4 << 20
	// A set is suspicious from this many lines on if more than one in a hundred
	// cannot be read.
	suspiciousLines = 100
	// strayLines may stand in a file beside two for each member.
	strayLines = 10_000
)

// readFile fetches and stages one result file.
//
// One goroutine splits the file, some decode and validate, one writes. What is
// in memory at a time is a few chunks, however long the file or its lines are.
func (j *jobReading) readFile(ctx context.Context, set ResultSet) error {
	if set.FileID == "" {
		return errors.New("the ledger holds no file of the set")
	}
	body, size, err := j.provider.Download(ctx, set.FileID)
	if err != nil {
		return err
	}
	defer body.Close()
	// The file is there, whatever becomes of this reading: earlier answers that
	// it is not prove nothing any more.
	if err := j.Store.StageLines(ctx, j.job.ID, set.Channel, nil); err != nil {
		return err
	}

	f := fileReading{jobReading: j, channel: set.Channel, mac: j.Keys.NewMAC(keyring.Body), last: j.mayBeTakenAsItIs()}
	raw, ready := make(chan []rawLine), make(chan []ResultLine)
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(raw)
		return f.split(gctx, body, size, raw)
	})
	var decoding sync.WaitGroup
	for range cmp.Or(j.Decoders, 2) { // decoding is the larger part of the work
		decoding.Add(1)
		g.Go(func() error {
			defer decoding.Done()
			return f.decode(gctx, raw, ready)
		})
	}
	go func() {
		decoding.Wait()
		close(ready)
	}()
	g.Go(func() error { return f.write(gctx, ready) })
	if err := g.Wait(); err != nil {
		return err
	}
	return f.finish(ctx) // only now is it certain that no line is left out
}

// fileReading is one result file on its way into the ledger.
type fileReading struct {
	*jobReading
	channel batch.Channel
	mac     hash.Hash // of the whole file
	bytes   int64     // read by split
	last    bool      // a last line that does not parse is that line's own fault

	lines, malformed, unknown int64     // counted by write
	damaged                   []string  // works with an answer to a damaged text, found by write
	crossed                   someWorks // with an answer that may be about another text, likewise
	unapproved, renamed       someWorks // served by a vendor, or by a model, that nobody approved, likewise
}

// mayBeTakenAsItIs says whether a file has been fetched for so long that its
// last line, cut each time, is all there will ever be.
func (j *jobReading) mayBeTakenAsItIs() bool {
	return j.now.Sub(j.job.EndedAt) >= j.Settings.FilesGrace
}

// split sends the file on in chunks of lines. Blank lines are left out; they
// count in the numbers of the others.
func (f *fileReading) split(ctx context.Context, body io.Reader, size int64, out chan<- []rawLine) error {
	lines := newLineReader(io.TeeReader(&countingReader{body, &f.bytes, f.Settings.SetBytes}, f.mac), f.Settings.LineBytes, f.newLineMAC)
	limit := f.chunkLines()
	var chunk []rawLine
	held := 0
	// A line without a member becomes a row all the same, so a file of short
	// ones would cost many times what it is long.
	var taken int64
	most := 2*f.job.Items + strayLines
	send := func() error {
		select {
		case out <- chunk:
			chunk, held = make([]rawLine, 0, len(chunk)), 0
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for {
		line, err := lines.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("after %d bytes: %w", f.bytes, err)
		}
		if line.cut && !f.last && !whole(line) {
			return fmt.Errorf("its last line has no end: %w", errTorn)
		}
		if line.blank() {
			continue
		}
		if taken++; taken > most {
			return fmt.Errorf("more than %d lines for %d members: %w", most, f.job.Items, errTooLarge)
		}
		chunk = append(chunk, line)
		if held += len(line.body); len(chunk) >= limit || held >= chunkBytes {
			if err := send(); err != nil {
				return err
			}
		}
	}
	if size >= 0 && f.bytes != size {
		return fmt.Errorf("%d bytes of %d: %w", f.bytes, size, errTorn)
	}
	if len(chunk) == 0 {
		return nil
	}
	return send()
}

// whole says whether a last line without a line feed is complete all the same.
func whole(l rawLine) bool {
	return !l.long && jsontext.Value(l.body).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// chunkLines is how many lines one chunk may have, so that the texts that
// belong to it, of the job's average length, stay within chunkBytes.
func (f *fileReading) chunkLines() int {
	average := f.job.ContentBytes/max(f.job.Items, 1) + 1
	return int(min(int64(f.Settings.Chunk), max(chunkBytes/average, 1)))
}

func (f *fileReading) newLineMAC() hash.Hash { return f.Keys.NewMAC(keyring.Line) }

// decode turns chunks of lines into what is stored of them.
func (f *fileReading) decode(ctx context.Context, in <-chan []rawLine, out chan<- []ResultLine) error {
	for raw := range in {
		lines, err := f.decodeChunk(ctx, raw)
		if err != nil {
			return err
		}
		select {
		case out <- lines:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (f *fileReading) decodeChunk(ctx context.Context, raw []rawLine) ([]ResultLine, error) {
	results := make([]batch.Result, len(raw))
	works := make([]string, len(raw))
	var named []string
	for i := range raw {
		if raw[i].long {
			results[i] = batch.Result{Outcome: batch.Unreadable, Code: codeLineTooLong}
			continue
		}
		results[i] = batch.Judge(f.question, f.provider.DecodeResult(raw[i].body))
		if work, ok := workOf(results[i].CustomID, f.job.SubmissionID); ok {
			works[i] = work
			named = append(named, work)
		}
	}
	members, err := f.Store.MemberTexts(ctx, f.job.ID, named)
	if err != nil {
		return nil, err
	}
	lines := make([]ResultLine, 0, len(raw))
	for i := range raw {
		var line ResultLine
		if item, ok := members[works[i]]; ok {
			line, err = f.memberLine(ctx, raw[i], results[i], item)
		} else {
			line, err = f.strayLine(raw[i], results[i])
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", raw[i].number, err)
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// write stages chunk by chunk.
func (f *fileReading) write(ctx context.Context, in <-chan []ResultLine) error {
	for lines := range in {
		if err := f.Store.StageLines(ctx, f.job.ID, f.channel, lines); err != nil {
			return err
		}
		// These lines are staged. If the process dies here, the set is read again
		// from its first byte.
		f.step(crashpoint.ConsumeStaged)
		f.count(lines)
		f.progress(PassConsume, f.done, f.total)
	}
	return nil
}

func (f *fileReading) count(lines []ResultLine) {
	f.lines += int64(len(lines))
	f.done += int64(len(lines))
	for i := range lines {
		switch {
		case lines[i].Disposition == LineUnknownID:
			f.unknown++
		case lines[i].Disposition == LineMalformed, lines[i].Code == codeUnreadable:
			f.malformed++
		case lines[i].Code == string(faultText):
			f.damaged = append(f.damaged, lines[i].WorkID)
		case lines[i].Outcome == ItemInvalid && lines[i].Code == batch.CodeCrossed:
			f.crossed.add(lines[i].WorkID, "")
		case lines[i].Outcome == ItemUnapproved && lines[i].Code == codeModel:
			f.renamed.add(lines[i].WorkID, lines[i].Model)
		case lines[i].Outcome == ItemUnapproved:
			by := cmp.Or(lines[i].Vendor, "unknown")
			if lines[i].Code != codeVendor { // such as an answer from a cache of somebody's
				by += " (" + lines[i].Code + ")"
			}
			f.unapproved.add(lines[i].WorkID, by)
		}
	}
}

// finish tells what is wrong with the file as a whole, then makes it whole: in
// the other order a process that dies in between would tell nobody.
func (f *fileReading) finish(ctx context.Context) error {
	subject := "job:" + f.job.ID
	if f.unknown > 0 {
		if err := f.raise(ctx, f.now, EventUnknownResult, subject, fmt.Sprintf("%s: %d of %d lines", f.channel, f.unknown, f.lines)); err != nil {
			return err
		}
	}
	if f.malformed > 0 && (f.malformed == f.lines || f.lines >= suspiciousLines && f.malformed*100 > f.lines) {
		if err := f.raise(ctx, f.now, EventMalformedResults, subject, fmt.Sprintf("%s: %d of %d lines", f.channel, f.malformed, f.lines)); err != nil {
			return err
		}
	}
	if err := f.tellWorks(ctx); err != nil {
		return err
	}
	return f.Store.FinishResultSet(ctx, f.now, WholeSet{
		JobID: f.job.ID, Channel: f.channel, Lines: f.lines, Bytes: f.bytes, MAC: hex.EncodeToString(f.mac.Sum(nil)),
	})
}

// tellWorks opens the findings about works of the lines that were counted.
func (f *fileReading) tellWorks(ctx context.Context) error {
	events := UnreadableWorks(f.damaged).Events(f.job.ID)
	f.damaged = nil
	for _, of := range []struct {
		kind  EventKind
		what  string
		works *someWorks
	}{{EventCrossedAnswer, "", &f.crossed}, {EventUnapprovedVendor, "vendor ", &f.unapproved}, {EventAnotherModel, "model ", &f.renamed}} {
		if of.works.untold() {
			events = append(events, of.kind.event("job:"+f.job.ID, fmt.Sprintf("%s: %s", f.channel, of.works.tell(of.what))))
		}
	}
	for _, e := range events {
		f.logEvents(e)
		if err := f.Store.OpenFinding(ctx, f.now, e); err != nil {
			return err
		}
	}
	return nil
}

// someWorks are works that a finding about their job is about.
type someWorks struct {
	n, told int64
	first   []string
	by      []string // who served them
}

// namedWorks is how many works a finding names, and how many that served them.
// The others are found by the code of their items.
const namedWorks = 10

func (s *someWorks) add(work, by string) {
	if s.n++; len(s.first) < namedWorks {
		s.first = append(s.first, work)
	}
	if by != "" && len(s.by) < namedWorks && !slices.Contains(s.by, by) {
		s.by = append(s.by, by)
	}
}

// untold says whether there are works that no finding told of yet.
func (s *someWorks) untold() bool {
	before := s.told
	s.told = s.n
	return s.n > before
}

// tell is "vendor x: 2 items: work a, work b".
func (s *someWorks) tell(what string) string {
	slices.Sort(s.first) // chunks are decoded side by side
	slices.Sort(s.by)
	by, more := "", ""
	if len(s.by) > 0 {
		by = what + strings.Join(s.by, ", ") + ": "
	}
	if n := s.n - int64(len(s.first)); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("%s%d items: work %s%s", by, s.n, strings.Join(s.first, ", work "), more)
}

// countingReader counts what is read, and stops at a limit.
type countingReader struct {
	src   io.Reader
	count *int64
	limit int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.src.Read(p)
	if *c.count += int64(n); *c.count > c.limit {
		return 0, errTooLarge
	}
	return n, err
}
