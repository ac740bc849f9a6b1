package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
)

// end writes the result files of a job and stores that it has ended.
func (s *Server) end(j *job, c course) error {
	in, err := os.Open(s.disk.inputPath(j.ID))
	if err != nil {
		return fmt.Errorf("open input: %w", err)
	}
	defer in.Close()
	order, err := s.order(in, j)
	if err != nil {
		return err
	}
	w := &resultWriter{server: s, job: j, course: c, in: in, respond: responder{kind: kindOf(j.Endpoint)}}
	defer w.discard()
	e, err := w.write(order)
	if err != nil {
		return err
	}
	j.Ended = &e
	if err := s.saveJob(j); err != nil {
		j.Ended = nil
		return err
	}
	s.log.Info().Str("job", j.ID).Str("status", c.status).Int("completed", e.Completed).Int("failed", e.Failed).Msg("ended")
	return s.disk.remove(s.disk.inputPath(j.ID))
}

// span is where a line of the input is.
type span struct {
	no    int
	start int64
	size  int64
}

// order finds the lines and shuffles them. Only their places are in memory.
func (s *Server) order(in *os.File, j *job) ([]span, error) {
	spans := make([]span, 0, j.Checked.Lines)
	lines := newLineReader(in)
	for {
		_, _, err := lines.read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read input: %w", err)
		}
		spans = append(spans, span{lines.no, lines.start, lines.size})
	}
	s.ids.shuffle(j.ID).Shuffle(len(spans), func(a, b int) { spans[a], spans[b] = spans[b], spans[a] })
	return spans, nil
}

// resultWriter writes the output and the error file of one job.
type resultWriter struct {
	server  *Server
	job     *job
	course  course
	in      *os.File
	output  resultFile
	failure resultFile
	respond responder
	ended   ended
	buf     []byte
	other   span // a line whose answer may get crossed with this one's
}

// resultFile is a result file that is being written. Nothing is on disk before
// its first byte.
type resultFile struct {
	channel string
	file    *os.File
	w       *bufio.Writer
	last    int64 // length of the last line with its line feed
	bytes   int64
}

func (w *resultWriter) write(order []span) (ended, error) {
	w.output.channel, w.failure.channel = "output", "error"
	done := int(float64(len(order))*w.course.share + 0.5)
	for i, sp := range order {
		w.other = order[(i+1)%len(order)]
		if err := w.item(sp, i < done); err != nil {
			return ended{}, err
		}
	}
	if w.course.status != statusCompleted {
		w.ended.Failed = 0 // as observed: only completed jobs count failures
	}
	if _, ok := w.job.fault("zero_byte_error_file"); ok && w.failure.file == nil {
		if err := w.failure.open(w.server.disk); err != nil {
			return ended{}, err
		}
	}
	var errOut, errErr error
	w.ended.OutputFile, errOut = w.keep(&w.output)
	w.ended.ErrorFile, errErr = w.keep(&w.failure)
	return w.ended, errors.Join(errOut, errErr)
}

// item answers one line of the input.
func (w *resultWriter) item(sp span, done bool) error {
	req, err := w.request(sp)
	if err != nil {
		return err
	}
	line := resultLine{ID: w.id("batch_req_", "line", sp.no), CustomID: req.CustomID}
	if !done {
		line.Error = w.notRun()
		return w.emit(&w.failure, line, sp.no)
	}
	r, err := w.reply(req, sp.no)
	if err != nil {
		return err
	}
	line.Response = &itemResponse{Status: r.status(), RequestID: w.id("", "request", sp.no)}
	if r.failure != nil {
		w.ended.Failed++
		line.Response.Body = errorBody{r.failure}
		return w.emit(&w.failure, line, sp.no)
	}
	w.ended.Completed++
	w.ended.Usage.Input += r.tokens.Prompt
	w.ended.Usage.Output += r.tokens.Completion
	w.ended.Usage.Total += r.tokens.Total
	line.Response.Body = r.body(w.respond.kind, w.id("", "chat", sp.no), w.course.at.Unix())
	return w.emit(&w.output, line, sp.no)
}

// request reads a line of the input. It is valid until the next call.
func (w *resultWriter) request(sp span) (requestLine, error) {
	if int64(cap(w.buf)) < sp.size {
		w.buf = make([]byte, sp.size, sp.size+sp.size/4)
	}
	w.buf = w.buf[:sp.size]
	if _, err := w.in.ReadAt(w.buf, sp.start); err != nil {
		return requestLine{}, fmt.Errorf("read input: %w", err)
	}
	var req requestLine
	if err := json.Unmarshal(w.buf, &req); err != nil || req.CustomID == nil {
		return requestLine{}, fmt.Errorf("line %d does not read as it did in validation", sp.no)
	}
	return req, nil
}

func (w *resultWriter) id(prefix, kind string, no int) string {
	return w.server.ids.of(prefix, kind, w.job.ID, no)
}

// reply is the stand-in's answer, with the faults that concern it.
func (w *resultWriter) reply(req requestLine, no int) (reply, error) {
	r := w.respond.respond(req.Body)
	if f, ok := w.job.fault("all_failed"); ok {
		r.failure = itemFailure(int(f.number("status")), "default")
		return r, nil
	}
	f, ok := w.server.faults.take(func(f Fault, sp spec) bool {
		return sp.stage == ofAnswer && f.selects(no, *req.CustomID)
	})
	if ok && f.Name == "crossed_answer" {
		other, err := w.request(w.other)
		return w.respond.respond(other.Body), err
	}
	if ok {
		r.spoil(f)
	}
	return r, nil
}

func (w *resultWriter) notRun() *itemError {
	if w.course.status == statusExpired {
		return &itemError{"batch_expired", "This request was not executed before the batch expired."}
	}
	return &itemError{"batch_cancelled", "This request was not executed because the batch was cancelled."}
}

// emit writes a line, and what line faults make of it.
func (w *resultWriter) emit(f *resultFile, line resultLine, no int) error {
	faults := w.server.faults.takeAll(func(f Fault, sp spec) bool {
		return sp.stage == ofLine && f.selects(no, *line.CustomID)
	})
	lines, err := w.mangle(line, no, faults)
	if err != nil {
		return err
	}
	for _, b := range lines {
		if err := f.line(w.server.disk, b); err != nil {
			return err
		}
	}
	return nil
}

// mangle encodes the line as the faults have it: not at all, otherwise, or with
// others after it.
func (w *resultWriter) mangle(line resultLine, no int, faults []Fault) ([][]byte, error) {
	has := func(name string) (Fault, bool) {
		i := slices.IndexFunc(faults, func(f Fault) bool { return f.Name == name })
		if i < 0 {
			return Fault{}, false
		}
		return faults[i], true
	}
	all := []resultLine{line}
	if _, ok := has("conflicting_line"); ok {
		all = append(all, w.contradiction(line, no))
	}
	if _, ok := has("unknown_custom_id"); ok {
		all = append(all, w.stranger(line, no))
	}
	if _, ok := has("missing_line"); ok {
		return w.encode(all[1:]...)
	}
	if _, ok := has("no_custom_id"); ok {
		all[0].CustomID = nil
	}
	if _, ok := has("line_separator"); ok {
		addSeparators(&all[0])
	}
	lines, err := w.encode(all...)
	if err != nil {
		return nil, err
	}
	if f, ok := has("long_line"); ok {
		lines[0] = lengthen(lines[0], f.number("bytes"))
	}
	if _, ok := has("malformed_line"); ok {
		lines[0] = lines[0][:len(lines[0])*2/3]
	}
	if _, ok := has("duplicate_line"); ok {
		lines = append(lines, lines[0])
	}
	return lines, nil
}

// contradiction is another outcome for the same id.
func (w *resultWriter) contradiction(line resultLine, no int) resultLine {
	line.ID, line.Error = w.id("batch_req_", "conflict", no), nil
	line.Response = &itemResponse{Status: 500, RequestID: w.id("", "conflict", no), Body: errorBody{itemFailure(500, "default")}}
	return line
}

// stranger is the same outcome for an id that no client has sent.
func (w *resultWriter) stranger(line resultLine, no int) resultLine {
	id := strangerID(w.job.ID, no)
	line.ID, line.CustomID = w.id("batch_req_", "stranger", no), &id
	return line
}

// addSeparators puts the characters that some readers take for line ends into
// the message, where JSON allows them as they are.
func addSeparators(line *resultLine) {
	if line.Response == nil {
		return
	}
	if chat, ok := line.Response.Body.(chatBody); ok {
		chat.Choices[0].Message.Note = "one\u2028two\u2029three"
		line.Response.Body = chat
	}
}

func (w *resultWriter) encode(lines ...resultLine) ([][]byte, error) {
	var out [][]byte
	for _, l := range lines {
		b, err := json.Marshal(l)
		if err != nil {
			return nil, fmt.Errorf("encode result: %w", err)
		}
		out = append(out, b)
	}
	return out, nil
}

func (f *resultFile) open(d disk) error {
	tmp, err := d.temp()
	if err != nil {
		return err
	}
	f.file, f.w = tmp, bufio.NewWriterSize(tmp, 256<<10)
	return nil
}

func (f *resultFile) line(d disk, b []byte) error {
	if f.file == nil {
		if err := f.open(d); err != nil {
			return err
		}
	}
	f.last = int64(len(b)) + 1
	f.bytes += f.last
	f.w.Write(b) // Flush reports an error
	return f.w.WriteByte('\n')
}

// keep makes a file that has been opened a File object and returns its id.
func (w *resultWriter) keep(f *resultFile) (string, error) {
	if f.file == nil {
		return "", nil
	}
	for _, fault := range w.server.faults.takeAll(func(t Fault, sp spec) bool {
		which := t.text("file")
		return sp.stage == ofFile && f.bytes > 0 && (which == "both" || which == f.channel)
	}) {
		if err := f.spoil(fault); err != nil {
			return "", err
		}
	}
	if err := f.w.Flush(); err != nil {
		return "", fmt.Errorf("write results: %w", err)
	}
	_, lost := w.job.fault("results_lost")
	id := w.server.ids.of("file-", "result", w.job.ID, f.channel)
	return id, w.server.keepFile(f.file, &file{
		ID: id, Project: w.job.Project, Name: w.job.ID + "_" + f.channel + ".jsonl", Purpose: purposeOutput,
		Bytes: f.bytes, Created: w.course.at, Expires: w.course.at.Add(time.Duration(w.job.OutputExpiry) * time.Second), Lost: lost,
	})
}

// spoil applies a file fault to a file that is otherwise written.
func (f *resultFile) spoil(fault Fault) error {
	if err := f.w.Flush(); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	if fault.Name == "truncated_last_line" {
		f.bytes -= (f.last + 1) / 2
		if err := f.file.Truncate(f.bytes); err != nil {
			return fmt.Errorf("cut results: %w", err)
		}
		return nil
	}
	return f.prepend(byteOrderMark)
}

// prepend moves the whole file up, from its end, to make room at the front.
func (f *resultFile) prepend(mark string) error {
	buf := make([]byte, 256<<10)
	for end := f.bytes; end > 0; {
		n := min(end, int64(len(buf)))
		if _, err := f.file.ReadAt(buf[:n], end-n); err != nil {
			return fmt.Errorf("move results: %w", err)
		}
		if _, err := f.file.WriteAt(buf[:n], end-n+int64(len(mark))); err != nil {
			return fmt.Errorf("move results: %w", err)
		}
		end -= n
	}
	if _, err := f.file.WriteAt([]byte(mark), 0); err != nil {
		return fmt.Errorf("mark results: %w", err)
	}
	f.bytes += int64(len(mark))
	return nil
}

// discard drops what was not kept.
func (w *resultWriter) discard() {
	for _, f := range []*resultFile{&w.output, &w.failure} {
		if f.file != nil {
			drop(f.file)
		}
	}
}
