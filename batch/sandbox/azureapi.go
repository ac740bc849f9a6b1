package sandbox

import (
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
)

const (
	maxAnalyzed = 10_000 // code points
	// maxCallBody bounds a request, in bytes.
	maxCallBody = 8 << 20
)

// analyzeVersions are the versions that take text:analyze as it is here.
var analyzeVersions = []string{"2023-10-01", "2024-09-01"}

type analyzeRequest struct {
	Text       *string  `json:"text"`
	Categories []string `json:"categories"`
	Blocklists []string `json:"blocklistNames"`
	Halt       bool     `json:"haltOnBlocklistHit"`
	Output     string   `json:"outputType"`
}

type analyzeBody struct {
	Blocklists []blocklistHit `json:"blocklistsMatch"`
	Categories []gradeBody    `json:"categoriesAnalysis,omitzero"`
	Note       string         `json:"sandboxNote,omitzero"` // only with the fault category_unknown
}

type blocklistHit struct {
	Name string `json:"blocklistName"`
	Item string `json:"blocklistItemId"`
	Text string `json:"blocklistItemText"`
}

type gradeBody struct {
	Category string `json:"category"`
	Severity *int   `json:"severity,omitzero"`
}

var graded = []string{"Hate", "SelfHarm", "Sexual", "Violence"}

// analyze grades a text.
func (s *Server) analyze(c *call) (answer, error) {
	version := c.URL.Query().Get("api-version")
	switch {
	case version == "":
		return answer{}, badRequest("", "", "The api-version query parameter is required.")
	case !slices.Contains(analyzeVersions, version):
		return answer{}, notFound("api-version")
	}
	var req analyzeRequest
	refuse := func(why string) (answer, error) { return answer{}, badRequest("", "", why) }
	if json.UnmarshalRead(http.MaxBytesReader(nil, c.Body, maxCallBody), &req, json.RejectUnknownMembers(true)) != nil {
		return refuse("The request body is not valid.")
	}
	switch {
	case req.Text == nil || *req.Text == "" && !s.gradesEmpty():
		return refuse("text is required.")
	case utf8.RuneCountInString(*req.Text) > maxAnalyzed:
		return refuse("text is longer than allowed.")
	case slices.ContainsFunc(req.Categories, func(name string) bool { return !slices.Contains(graded, name) }):
		return refuse("categories has an unknown category.")
	case len(req.Blocklists) > 0:
		return answer{}, notFound("blocklist")
	case !slices.Contains([]string{"", "FourSeverityLevels", "EightSeverityLevels"}, req.Output):
		return refuse("outputType is unknown.")
	}
	if len(req.Categories) == 0 {
		req.Categories = graded
	}
	var body analyzeBody
	for _, name := range req.Categories {
		severity := severityOf(name, *req.Text)
		if req.Output != "EightSeverityLevels" {
			severity -= severity % 2
		}
		body.Categories = append(body.Categories, gradeBody{name, &severity})
	}
	body.Blocklists = []blocklistHit{}
	for _, f := range s.callFaults(opAnalyze) {
		body.spoil(f, s.ids)
	}
	return answer{body: body}, nil
}

// gradesEmpty: what the API does with an empty text is not documented.
func (s *Server) gradesEmpty() bool {
	_, ok := s.faults.onAnswer("empty_text_graded", opAnalyze)
	return ok
}

// severityOf is what the stand-in makes of a text, from the words that it judges
// reports by.
func severityOf(category, text string) int {
	has := func(label string) bool { return classify(text, []string{label, "ok"}).label == label }
	threatens := func() bool {
		lower := asciiLower(text)
		return slices.ContainsFunc([]string{"kill you", "hurt you", "beat you", "find you"}, func(p string) bool { return strings.Contains(lower, p) })
	}
	switch {
	case category == "Hate" && has("harassment"):
		return 5
	case category == "SelfHarm" && has("self_harm"):
		return 3 // as a cry for help is graded
	case category == "Violence" && threatens():
		return 6
	}
	return 0
}

// callFaults takes the faults that alter the answer to one call of op.
func (s *Server) callFaults(op string) []Fault {
	return s.faults.takeAll(func(f Fault, sp spec) bool { return sp.stage == ofCall && sp.op == op })
}

func (b *analyzeBody) spoil(f Fault, ids *idSource) {
	name := f.text("category")
	i := slices.IndexFunc(b.Categories, func(g gradeBody) bool { return g.Category == name })
	switch f.Name {
	case "category_unknown":
		severity := 7
		b.Categories, b.Note = append(b.Categories, gradeBody{"Gore", &severity}), "a member that nobody documented"
		return
	case "grades_shuffled":
		ids.shuffle(ids.next("")).Shuffle(len(b.Categories), func(i, k int) { b.Categories[i], b.Categories[k] = b.Categories[k], b.Categories[i] })
		return
	case "blocklist_halted":
		b.Blocklists = []blocklistHit{{"sandbox-list", "7d0c9c1e-9d0b-4a53-8d5a-1f0c2b6a7e11", "words of the list"}}
		b.Categories = []gradeBody{}
		if f.text("form") == "absent" {
			b.Categories = nil
		}
		return
	}
	if i < 0 {
		return
	}
	switch f.Name {
	case "grade_missing":
		b.Categories[i].Severity = nil
	case "grade_absent":
		b.Categories = slices.Delete(b.Categories, i, i+1)
	case "grade_unknown":
		severity := int(f.number("severity"))
		b.Categories[i].Severity = &severity
	case "grade_twice":
		severity := 0
		b.Categories = append(b.Categories, gradeBody{name, &severity})
	}
}
