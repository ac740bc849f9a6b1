package infrai

import (
	"errors"
	"fmt"
	"rollcall/batch"
	"rollcall/batch/transport"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Contract is what the provider calls things. A path is names with dots between
// them, from data or from an item on. What is null is not documented by the
// pinned documents, and absent.
type Contract struct {
	SubmitRoute string `json:"submit_route"`
	StatusRoute string `json:"status_route"` // with {id}
	// Idempotent: the submit declares that a repeat under its key is the same job,
	// by a plain true. A declaration with members may say that it does not.
	Idempotent bool     `json:"idempotent"`
	Capability string   `json:"capability"` // of each item: a chat completion
	Models     []string `json:"models"`     // those that may be asked for; never "auto"
	ItemIDPath string   `json:"item_id_path,omitzero"`
	// MaxTokensPath is the member of an item's body that bounds the answer.
	MaxTokensPath string `json:"max_tokens_path,omitzero"`
	// BodyOptions are further members of each item's body, such as the vendor to
	// use, no fail-over and no cache, where the documents offer them.
	BodyOptions map[string]jsontext.Value `json:"body_options,omitzero"`
	StatePath   string                    `json:"state_path,omitzero"`
	States      States                    `json:"states"`
	Counts      Counts                    `json:"counts"`
	Results     *Results                  `json:"results"`
	// These are recorded, and not used yet: nothing depends on them.
	CancelRoute string `json:"cancel_route,omitzero"`
	ListRoute   string `json:"list_route,omitzero"`
	DeleteRoute string `json:"delete_route,omitzero"`
}

// States are the words for where a job stands. One that is in none of the sets
// is taken for running.
type States struct {
	Pending   []string `json:"pending"`
	Success   []string `json:"success"`
	Partial   []string `json:"partial"`
	Failed    []string `json:"failed"`
	Cancelled []string `json:"cancelled"`
}

// Counts are paths; "" where there is no such count.
type Counts struct {
	Total     string `json:"total,omitzero"`
	Completed string `json:"completed,omitzero"`
	Failed    string `json:"failed,omitzero"`
}

// The shapes of results.
const (
	ShapeArray = "array" // one list in an answer
	ShapeJSONL = "jsonl" // lines, without an envelope
	ShapePaged = "paged" // lists in several answers
)

// Results say how items come back.
type Results struct {
	Route string `json:"route"` // with {id}
	Shape string `json:"shape"`
	// ItemsPath is where in data the list is; "" when data is the list itself.
	ItemsPath         string     `json:"items_path,omitzero"`
	ItemIDPath        string     `json:"item_id_path"`
	ItemStatusPath    string     `json:"item_status_path"`
	ItemStates        ItemStates `json:"item_states"`
	ItemBodyPath      string     `json:"item_body_path"`               // of a chat completion
	ItemErrorPath     string     `json:"item_error_path,omitzero"`     // of an error's code
	ItemRetryablePath string     `json:"item_retryable_path,omitzero"` // of true or false
	ItemVendorPath    string     `json:"item_vendor_path,omitzero"`    // who served the item
	ItemCachePath     string     `json:"item_cache_path,omitzero"`     // true: an old answer
	NextPagePath      string     `json:"next_page_path,omitzero"`      // in data, of a cursor
	PageParameter     string     `json:"page_parameter,omitzero"`      // of the query, for the cursor
}

// ItemStates are the words for what became of an item.
type ItemStates struct {
	Success   []string `json:"success"`
	Failed    []string `json:"failed"`
	Expired   []string `json:"expired"` // not done within batch_timeout
	Cancelled []string `json:"cancelled"`
}

// documented is what the public documentation says, and nothing more: enough to
// look a known job up, and not to send one.
var documented = Contract{
	SubmitRoute: "/v1/ai/batch/submit", StatusRoute: "/v1/ai/batch/status/{id}", StatePath: "state",
}

func (s States) all() []string {
	return slices.Concat(s.Pending, s.Success, s.Partial, s.Failed, s.Cancelled)
}

func (s ItemStates) all() []string {
	return slices.Concat(s.Success, s.Failed, s.Expired, s.Cancelled)
}

func (c *Contract) check() error {
	bad := func(what string) error { return errors.New("infrai: pin: " + what) }
	switch {
	case !validRoute(c.SubmitRoute, false), !validRoute(c.StatusRoute, true):
		return bad("submit_route and status_route are paths below /v1/ai/, status_route with {id}")
	case c.Capability == "" || !printable(c.Capability):
		return bad("capability is missing")
	case c.ItemIDPath != "" && (!validName(c.ItemIDPath) || c.ItemIDPath == "body" || c.ItemIDPath == "capability"):
		return bad("item_id_path is one name beside body and capability")
	case c.MaxTokensPath != "" && (!validName(c.MaxTokensPath) || ownMember(c.MaxTokensPath)):
		return bad("max_tokens_path is one name in body")
	case len(c.Models) == 0 || slices.ContainsFunc(c.Models, func(m string) bool { return !explicitModel(m) }):
		return bad("models is a list of explicit names; auto is none")
	case !distinct(c.States.all()):
		return bad("states are words, each in one set")
	}
	for name, value := range c.BodyOptions {
		if !validName(name) || ownMember(name) || name == c.MaxTokensPath || !validOption(value) {
			return bad("body_options are further names of body, with texts, whole numbers, true or false")
		}
	}
	for _, path := range []string{c.StatePath, c.Counts.Total, c.Counts.Completed, c.Counts.Failed} {
		if path != "" && !validPath(path) {
			return bad("state_path and counts are names with dots between them")
		}
	}
	for _, route := range []string{c.CancelRoute, c.ListRoute, c.DeleteRoute} {
		if route != "" && !validRoute(route, strings.Contains(route, "{id}")) {
			return bad("cancel_route, list_route and delete_route are paths below /v1/ai/")
		}
	}
	if c.Results == nil {
		return nil
	}
	return c.Results.check()
}

func (r *Results) check() error {
	bad := func(what string) error { return errors.New("infrai: pin: results: " + what) }
	if !validRoute(r.Route, true) {
		return bad("route is a path below /v1/ai/, with {id}")
	}
	if !slices.Contains([]string{ShapeArray, ShapeJSONL, ShapePaged}, r.Shape) {
		return bad("shape is array, jsonl or paged")
	}
	if !validPath(r.ItemIDPath) || !validPath(r.ItemStatusPath) || !validPath(r.ItemBodyPath) {
		return bad("item_id_path, item_status_path and item_body_path are needed")
	}
	for _, path := range []string{r.ItemsPath, r.ItemErrorPath, r.ItemRetryablePath, r.ItemVendorPath, r.ItemCachePath, r.NextPagePath} {
		if path != "" && !validPath(path) {
			return bad("a path is names with dots between them")
		}
	}
	paged := r.Shape == ShapePaged
	switch {
	case paged != (r.NextPagePath != "") || paged != (r.PageParameter != "") || paged && !validName(r.PageParameter):
		return bad("next_page_path and page_parameter belong to the shape paged")
	case paged && r.ItemsPath == "":
		return bad("pages need an items_path beside next_page_path")
	case r.Shape == ShapeJSONL && r.ItemsPath != "":
		return bad("lines have no items_path")
	case len(r.ItemStates.Success) == 0 || !distinct(r.ItemStates.all()):
		return bad("item_states are words, each in one set, with one for success at least")
	}
	return nil
}

// claim is one thing that a contract says, to be held against a document.
type claim struct {
	key   string
	holds func(last string, value any) bool
}

// claims are all that the contract says.
func (c *Contract) claims() []claim {
	out := []claim{routeClaim("submit_route", c.SubmitRoute), routeClaim("status_route", c.StatusRoute),
		wordsClaim("capability", []string{c.Capability}), wordsClaim("models", c.Models)}
	if c.Idempotent {
		out = append(out, claim{"idempotent", func(_ string, v any) bool { return v == any(true) }})
	}
	names := map[string]string{
		"item_id_path": c.ItemIDPath, "max_tokens_path": c.MaxTokensPath, "state_path": c.StatePath,
		"counts.total": c.Counts.Total, "counts.completed": c.Counts.Completed, "counts.failed": c.Counts.Failed,
	}
	routes := map[string]string{"cancel_route": c.CancelRoute, "list_route": c.ListRoute, "delete_route": c.DeleteRoute}
	words := map[string][]string{"states": c.States.all()}
	for name := range c.BodyOptions {
		names["body_options."+name] = name
	}
	if r := c.Results; r != nil {
		routes["results.route"] = r.Route
		words["results.item_states"] = r.ItemStates.all()
		for key, path := range map[string]string{
			"items_path": r.ItemsPath, "item_id_path": r.ItemIDPath, "item_status_path": r.ItemStatusPath, "item_body_path": r.ItemBodyPath,
			"item_error_path": r.ItemErrorPath, "item_retryable_path": r.ItemRetryablePath, "item_vendor_path": r.ItemVendorPath,
			"item_cache_path": r.ItemCachePath, "next_page_path": r.NextPagePath, "page_parameter": r.PageParameter,
		} {
			names["results."+key] = path
		}
	}
	for key, path := range names {
		if path != "" {
			out = append(out, nameClaim(key, path))
		}
	}
	for key, route := range routes {
		if route != "" {
			out = append(out, routeClaim(key, route))
		}
	}
	for key, set := range words {
		if len(set) > 0 {
			out = append(out, wordsClaim(key, set))
		}
	}
	slices.SortFunc(out, func(a, b claim) int { return strings.Compare(a.key, b.key) }) // the first fault is the same each time
	return out
}

// nameClaim: the place has the last name of the path.
func nameClaim(key, path string) claim {
	name := path[strings.LastIndexByte(path, '.')+1:]
	return claim{key, func(last string, _ any) bool { return last == name }}
}

// wordsClaim: the place is one of the words alone, or a list with all of them.
func wordsClaim(key string, words []string) claim {
	return claim{key, func(_ string, v any) bool {
		if s, ok := v.(string); ok {
			return len(words) == 1 && words[0] == s
		}
		list, ok := v.([]any)
		return ok && !slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(list, any(w)) })
	}}
}

// routeClaim: the place is the route, whatever its {id} is called there.
func routeClaim(key, route string) claim {
	return claim{key, func(_ string, v any) bool {
		s, ok := v.(string)
		parts, want := strings.Split(s, "/"), strings.Split(route, "/")
		if !ok || len(parts) != len(want) {
			return false
		}
		for i, p := range parts {
			if p != want[i] && !(want[i] == "{id}" && (strings.HasPrefix(p, "{") && strings.HasSuffix(p, "}") || strings.HasPrefix(p, ":"))) {
				return false
			}
		}
		return true
	}}
}

// validRoute keeps every call that is made below the AI extension: the same key
// could order money, mail and files elsewhere.
func validRoute(route string, withID bool) bool {
	rest, ok := strings.CutPrefix(route, "/v1/ai/")
	if !ok || len(route) > 200 {
		return false
	}
	ids := 0
	for part := range strings.SplitSeq(rest, "/") {
		if part == "{id}" {
			ids++
		} else if !transport.PathSafe(part) {
			return false
		}
	}
	return ids <= 1 && (ids == 1) == withID
}

func validPath(path string) bool {
	if strings.Count(path, ".") > 8 {
		return false
	}
	for name := range strings.SplitSeq(path, ".") {
		if !validName(name) {
			return false
		}
	}
	return true
}

// validName: ASCII, since the order of other keys is not specified.
func validName(name string) bool { return batch.ValidCustomID(name) }

// ownMember says whether the adapter writes this member of body itself.
func ownMember(name string) bool {
	switch name {
	case "messages", "model", "response_format", "temperature":
		return true
	}
	return false
}

// validOption: no fractions, whose formatting is not specified.
func validOption(v jsontext.Value) bool {
	switch v.Kind() {
	case jsontext.KindTrue, jsontext.KindFalse:
		return true
	case jsontext.KindString:
		s, err := jsontext.AppendUnquote(nil, v)
		return err == nil && printable(string(s))
	case jsontext.KindNumber:
		return len(v) <= 15 && !strings.ContainsAny(string(v), ".eE-")
	}
	return false
}

func distinct(words []string) bool {
	for i, w := range words {
		if w == "" || !printable(w) || slices.Contains(words[:i], w) {
			return false
		}
	}
	return true
}

func printable(s string) bool {
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return len(s) <= 128
}

// missing is the code for what a contract lacks to be sent under, or "".
func (c *Contract) missing() string {
	switch {
	case c.ItemIDPath == "" || c.MaxTokensPath == "":
		return codeGateItem
	case c.StatePath == "" || len(c.States.Pending) == 0 || len(c.States.Success) == 0:
		return codeGateStates
	case c.Results == nil:
		return codeGateResults
	case c.Results.ItemVendorPath == "":
		return codeGateVendor
	}
	return ""
}

func at(route, id string) string { return strings.Replace(route, "{id}", id, 1) }

// String names the documents of a pin, for a person.
func (p Pin) String() string {
	var ids []string
	for _, d := range p.Documents {
		ids = append(ids, fmt.Sprintf("%s (sha256 %.12s)", d.ID, d.SHA256))
	}
	return fmt.Sprintf("fetched %s: %s", p.Fetched.Format("2006-01-02"), strings.Join(ids, ", "))
}
