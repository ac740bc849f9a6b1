package sandbox

import (
	"net/http"
	"slices"
)

// infraiSpecs are the faults of this API alone. A fault of an item is fixed
// when its job is made, as those of the job are.
var infraiSpecs = []spec{
	{name: "infrai_drift", stage: answering, op: opDiscovery, does: "discovery documents have changed"},
	{name: "infrai_no_data", stage: answering, does: "the envelope has no data", params: []param{on(opCreate)}},
	{name: "infrai_ok_false", stage: answering, does: "ok is false, with status 200", params: []param{on(opCreate)}},
	{name: "infrai_ok_true", stage: answering, does: "ok is true, with status 400", params: []param{on(opCreate)}},
	{name: "infrai_final", stage: answering, does: "503 that is said not to be retryable", params: []param{on(opCreate)}},
	{name: "infrai_total_count", stage: answering, op: opCreate, does: "total_count is one too many"},
	{name: "infrai_second_job", stage: answering, op: opCreate, does: "a key that is known makes another job"},
	{name: "infrai_other_body", stage: answering, op: opCreate, does: "another body under a known key is not refused", params: []param{
		{name: "gives", kind: isChoice, def: "old", does: "the job that answers, old or new", of: []string{"old", "new"}}}},
	{name: "infrai_page", stage: answering, op: opContent, does: "pages are short", params: []param{
		{name: "entries", kind: isCount, def: "1", does: "items of a page; at least one"}}},
	{name: "infrai_page_loop", stage: answering, op: opContent, does: "the last page leads to the first"},

	{name: "infrai_regress", stage: ofJob, does: "an ended job runs again at every second look"},
	{name: "infrai_results_once", stage: ofJob, does: "results are gone after they were read"},

	{name: "infrai_vendor", stage: ofLine, does: "another vendor serves the item", params: []param{
		{name: "name", kind: isText, def: "deepseek", does: "which"}}},
	{name: "infrai_no_vendor", stage: ofLine, does: "nothing tells who served the item"},
	{name: "infrai_cache_hit", stage: ofLine, does: "the answer is an old one"},
	{name: "infrai_item_word", stage: ofLine, does: "an outcome that nobody documented"},
}

// twistInfrai alters an answer as faults have it.
func (s *Server) twistInfrai(op string, a infraiAnswer) infraiAnswer {
	if a.Error != nil || a.lines != nil {
		return a
	}
	on := func(name string) bool { _, ok := s.faults.onAnswer(name, op); return ok }
	refusal := &infraiError{Code: "UPSTREAM_REFUSED", Message: "The sandbox was asked to say so."}
	switch {
	case on("infrai_no_data"):
		a.Data = nil
	case on("infrai_ok_false"):
		return infraiAnswer{Status: http.StatusOK, Error: refusal, id: a.id}
	case on("infrai_ok_true"):
		return infraiAnswer{Status: http.StatusBadRequest, Data: twisted{set: true, lies: true}, Error: refusal, id: a.id}
	case on("infrai_final"):
		return infraiAnswer{Status: http.StatusServiceUnavailable, Error: refusal, id: a.id}
	case on("infrai_total_count"):
		data := a.Data.(map[string]any)
		data["total_count"] = data["total_count"].(int) + 1
	}
	return a
}

// infraiItems are the results of a job, in an order of their own.
func (s *Server) infraiItems(j *infraiJob, at infraiStanding) []any {
	var respond responder
	var out []any
	for n, item := range j.Items {
		one := s.infraiItem(j, &respond, n, at)
		out = append(out, j.mangle(s.infrai.contract.Results.ItemIDPath, n, item.ID, one)...)
	}
	s.ids.shuffle(j.ID).Shuffle(len(out), func(a, b int) { out[a], out[b] = out[b], out[a] })
	return out
}

// strikes are the faults of a stage that concern an item.
func (j *infraiJob) strikes(at stage, n int, id string) []Fault {
	var out []Fault
	for _, f := range j.Faults {
		if sp, err := specOf(f.Name); err == nil && sp.stage == at && f.selects(n+1, id) {
			out = append(out, f)
		}
	}
	return out
}

// infraiItem is the result of one item.
func (s *Server) infraiItem(j *infraiJob, respond *responder, n int, at infraiStanding) map[string]any {
	r, item := s.infrai.contract.Results, j.Items[n]
	out := map[string]any{}
	put := func(path string, v any) {
		if path != "" {
			setPath(out, path, v)
		}
	}
	put(r.ItemIDPath, item.ID)
	if n >= at.done {
		put(r.ItemStatusPath, at.rest)
		put(r.ItemErrorPath, "NOT_FINISHED")
		return out
	}
	say := respond.respond(item.Body)
	if f, ok := j.fault("all_failed"); ok {
		say.failure = itemFailure(int(f.number("status")), "default")
	}
	for _, f := range j.strikes(ofAnswer, n, item.ID) {
		say.spoil(f)
	}
	put(r.ItemVendorPath, infraiVendor)
	if say.failure != nil {
		put(r.ItemStatusPath, first(r.ItemStates.Failed))
		put(r.ItemErrorPath, infraiWord(say.failure))
		put(r.ItemRetryablePath, say.failure.Status >= 429)
	} else {
		put(r.ItemCachePath, false)
		put(r.ItemStatusPath, r.ItemStates.Success[0])
		put(r.ItemBodyPath, say.chat(s.ids.of("chatcmpl-", j.ID, n), j.Created.Unix()))
	}
	for _, f := range j.strikes(ofLine, n, item.ID) {
		switch f.Name {
		case "infrai_vendor":
			put(r.ItemVendorPath, f.text("name"))
		case "infrai_no_vendor":
			put(r.ItemVendorPath, nil)
		case "infrai_cache_hit":
			put(r.ItemCachePath, true)
		case "infrai_item_word":
			put(r.ItemStatusPath, "reviewing")
		}
	}
	return out
}

// mangle gives an item out as faults of lines have it: not at all, twice, without
// its id, or with a stranger beside it.
func (j *infraiJob) mangle(idPath string, n int, id string, item map[string]any) []any {
	faults := j.strikes(ofLine, n, id)
	has := func(name string) bool {
		return slices.ContainsFunc(faults, func(f Fault) bool { return f.Name == name })
	}
	out := []any{item}
	if has("missing_line") {
		out = nil
	}
	if has("duplicate_line") {
		out = append(out, item)
	}
	if has("unknown_custom_id") {
		stranger := map[string]any{}
		for name, v := range item {
			stranger[name] = v
		}
		setPath(stranger, idPath, strangerID(j.ID, n))
		out = append(out, stranger)
	}
	if has("no_custom_id") {
		setPath(item, idPath, nil)
	}
	if has("malformed_line") {
		out = append(out, "not an item")
	}
	return out
}
