package openai

import (
	"encoding/json"
	"strings"
	"testing"

	"rollcall/batch/transport"
)

func TestJobEvent(t *testing.T) {
	for name, tc := range map[string]struct {
		body, want string
		fails      bool
	}{
		"completed":          {`{"object":"event","id":"evt_r1","type":"batch.completed","created_at":1767225600,"data":{"id":"batch_q9"}}`, "batch_q9", false},
		"failed":             {`{"type":"batch.failed","data":{"id":"batch_q9"}}`, "batch_q9", false},
		"expired":            {`{"type":"batch.expired","data":{"id":"batch_q9","more":[1]},"more":{}}`, "batch_q9", false},
		"cancelled":          {` { "data" : { "id" : "batch_q9" } , "type" : "batch\u002ecancelled" } `, "batch_q9", false},
		"of something else":  {`{"type":"response.completed","data":{"id":"resp_1"}}`, "", false},
		"of a later time":    {`{"type":"batch.paused","data":{"id":"batch_q9"}}`, "", false},
		"without data":       {`{"type":"eval.run.failed"}`, "", false},
		"in other letters":   {`{"type":"Batch.Completed","data":{"id":"batch_q9"}}`, "", false},
		"member in capitals": {`{"Type":"batch.completed","data":{"id":"batch_q9"}}`, "", true},
		"no job":             {`{"type":"batch.completed","data":{}}`, "", true},
		"no data":            {`{"type":"batch.completed"}`, "", true},
		"data of a text":     {`{"type":"batch.completed","data":"batch_q9"}`, "", true},
		"id of a number":     {`{"type":"batch.completed","data":{"id":9}}`, "", true},
		"id with a path":     {`{"type":"batch.completed","data":{"id":"../batch_q9"}}`, "", true},
		"id that is long":    {`{"type":"batch.completed","data":{"id":"` + strings.Repeat("b", 129) + `"}}`, "", true},
		"type twice":         {`{"type":"batch.failed","type":"batch.completed","data":{"id":"batch_q9"}}`, "", true},
		"id twice":           {`{"type":"batch.failed","data":{"id":"batch_q9","id":"batch_q8"}}`, "", true},
		"two events":         {`{"type":"batch.failed","data":{"id":"a"}}{"type":"batch.failed","data":{"id":"b"}}`, "", true},
		"no type":            {`{"data":{"id":"batch_q9"}}`, "", true},
		"a list":             {`[{"type":"batch.completed","data":{"id":"batch_q9"}}]`, "", true},
		"a form":             {`type=batch.completed&id=batch_q9`, "", true},
		"nothing":            {``, "", true},
	} {
		if got, err := JobEvent([]byte(tc.body)); got != tc.want || (err != nil) != tc.fails {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// FuzzJobEvent: whatever a signed body is, a job's id that comes of it may stand in
// a path, and is what another reader finds there.
func FuzzJobEvent(f *testing.F) {
	f.Add([]byte(`{"type":"batch.completed","data":{"id":"batch_q9"}}`))
	f.Add([]byte(`{"type":"batch.failed","data":{"id":"\u0062"}}`))
	f.Add([]byte(`{"type":["batch.failed"],"data":[[[[]]]]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		id, err := JobEvent(body)
		if id == "" {
			return
		}
		var other map[string]any
		if e := json.Unmarshal(body, &other); err != nil || !transport.PathSafe(id) || e != nil || other["data"].(map[string]any)["id"] != id {
			t.Errorf("%q, %v; the other reader: %v, %v", id, err, other, e)
		}
	})
}
