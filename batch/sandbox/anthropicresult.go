package sandbox

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// messageLine is a line of the results.
type messageLine struct {
	CustomID string        `json:"custom_id,omitempty"`
	Result   messageResult `json:"result"`
}

type messageResult struct {
	Type    string            `json:"type"`
	Message *messageBody      `json:"message,omitempty"`
	Error   *messageErrorBody `json:"error,omitempty"`
}

// messageWriter writes the results of one batch, in no order.
type messageWriter struct {
	server *Server
	batch  *messageBatch
	job    *job
	course course
	in     *os.File
	out    resultFile
	answer responder
	ended  messageCount
	buf    []byte
}

// endMessages writes the results of a batch and stores that it has ended. b.mu is
// held. A crash in between repeats it.
func (s *Server) endMessages(b *messageBatch) error {
	in, err := os.Open(s.messagePath(b.ID, ".input"))
	if err != nil {
		return fmt.Errorf("open input: %w", err)
	}
	defer in.Close()
	j := b.job()
	order, err := s.order(in, j)
	if err != nil {
		return err
	}
	w := &messageWriter{server: s, batch: b, job: j, course: j.course(), in: in, out: resultFile{channel: "output"}}
	defer func() {
		if w.out.file != nil {
			drop(w.out.file)
		}
	}()
	if err := w.write(order); err != nil {
		return err
	}
	b.Ended = &w.ended
	if err := s.saveMessages(b); err != nil {
		b.Ended = nil
		return err
	}
	s.log.Info().Str("job", b.ID).Int("completed", w.ended.Succeeded).Int("failed", w.ended.Errored).Msg("ended")
	return s.disk.remove(s.messagePath(b.ID, ".input"))
}

func (w *messageWriter) write(order []span) error {
	if err := w.out.open(w.server.disk); err != nil { // it is there even when every line is missing
		return err
	}
	done := int(float64(len(order))*w.course.share + 0.5)
	for i, sp := range order {
		if err := w.item(sp, i < done); err != nil {
			return err
		}
	}
	for _, f := range w.server.faults.takeAll(func(t Fault, sp spec) bool {
		return sp.stage == ofFile && w.out.bytes > 0 && t.text("file") != "error"
	}) {
		if err := w.out.spoilMessages(f); err != nil {
			return err
		}
	}
	if err := w.out.w.Flush(); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	return w.server.disk.keep(w.out.file, w.server.messagePath(w.batch.ID, ".results"))
}

func (f *resultFile) spoilMessages(fault Fault) error {
	if fault.Name != "no_last_feed" {
		return f.spoil(fault)
	}
	if err := f.w.Flush(); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	f.bytes--
	if err := f.file.Truncate(f.bytes); err != nil {
		return fmt.Errorf("cut results: %w", err)
	}
	return nil
}

// item answers one request, or says that it was not run.
func (w *messageWriter) item(sp span, done bool) error {
	w.buf = slices.Grow(w.buf[:0], int(sp.size))[:sp.size]
	if _, err := w.in.ReadAt(w.buf, sp.start); err != nil {
		return fmt.Errorf("read input: %w", err)
	}
	var req struct {
		CustomID string         `json:"custom_id"`
		Params   jsontext.Value `json:"params"`
	}
	if err := json.Unmarshal(w.buf, &req); err != nil {
		return fmt.Errorf("line %d does not read as it did at first", sp.no)
	}
	line := messageLine{CustomID: req.CustomID}
	switch {
	case done:
		line.Result = w.run(req.Params, req.CustomID, sp.no)
	case w.course.status == statusExpired:
		line.Result.Type = "expired"
		w.ended.Expired++
	default:
		line.Result.Type = "canceled"
		w.ended.Canceled++
	}
	lines, err := w.mangle(line, sp.no)
	if err != nil {
		return err
	}
	for _, l := range lines {
		if err := w.out.line(w.server.disk, l); err != nil {
			return err
		}
	}
	return nil
}

func (w *messageWriter) id(kind string, no int) string {
	return w.server.ids.of("", kind, w.batch.ID, no)
}

// run is the result of a request that was run.
func (w *messageWriter) run(params jsontext.Value, customID string, no int) messageResult {
	a := w.answer.message(params, w.batch.Version, true)
	if f, ok := w.job.fault("all_failed"); ok {
		a.errored = itemMessageError(usualClass(int(f.number("status"))), "", "")
	} else if f, ok := w.server.faults.take(func(f Fault, sp spec) bool { return sp.stage == ofAnswer && f.selects(no, customID) }); ok {
		a.spoil(f)
	}
	if a.errored != nil {
		w.ended.Errored++
		return messageResult{Type: "errored", Error: &messageErrorBody{Type: "error", Error: a.errored}}
	}
	w.ended.Succeeded++
	m := a.body(w.id("message", no), "batch")
	return messageResult{Type: "succeeded", Message: &m}
}

// mangle encodes the line as the faults that concern it have it.
func (w *messageWriter) mangle(line messageLine, no int) ([][]byte, error) {
	id := line.CustomID
	faults := w.server.faults.takeAll(func(f Fault, sp spec) bool { return sp.stage == ofLine && f.selects(no, id) })
	all := []messageLine{line}
	for _, f := range faults {
		switch f.Name {
		case "conflicting_line":
			e := itemMessageError("api_error", "", "")
			all = append(all, messageLine{id, messageResult{Type: "errored", Error: &messageErrorBody{Type: "error", Error: e}}})
		case "unknown_custom_id":
			all = append(all, messageLine{strangerID(w.batch.ID, no), line.Result})
		case "no_custom_id":
			all[0].CustomID = ""
		case "unknown_result":
			all[0].Result = messageResult{Type: "sandbox_result"}
		case "line_separator":
			if all[0].Result.Message != nil {
				all[0].Result.Message.Note = "one\u2028two\u2029three"
			}
		}
	}
	var out [][]byte
	for _, l := range all {
		b, err := json.Marshal(l)
		if err != nil {
			return nil, errors.New("encode a result")
		}
		out = append(out, b)
	}
	return mangleBytes(out, faults), nil
}

// mangleBytes does what is not a matter of what a line says.
func mangleBytes(lines [][]byte, faults []Fault) [][]byte {
	missing := false
	for _, f := range faults {
		switch f.Name {
		case "long_line":
			lines[0] = lengthen(lines[0], f.number("bytes"))
		case "malformed_line":
			lines[0] = lines[0][:len(lines[0])*2/3]
		case "duplicate_line":
			lines = append(lines, lines[0])
		case "missing_line":
			missing = true
		}
	}
	if missing {
		return lines[1:]
	}
	return lines
}
