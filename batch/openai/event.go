package openai

import (
	"github.com/go-json-experiment/json"

	"rollcall/batch/loose"
	"rollcall/batch/transport"
)

// wireEvent is what a webhook holds. There are no counts and no status in it.
type wireEvent struct {
	Type loose.Str `json:"type"`
	Data loose.Obj[struct {
		ID loose.Str `json:"id"`
	}] `json:"data"`
}

// JobEvent reads the body of a webhook and gives the id of the batch job that it
// says has ended, "" for an event about something else, whose type may be one that
// is not known yet. It is an error if the body is no event, or one about a job that
// it does not name. The signature must have been verified before.
func JobEvent(body []byte) (jobID string, err error) {
	var e wireEvent
	if json.Unmarshal(body, &e) != nil || e.Type.V == "" {
		return "", errShape
	}
	switch e.Type.V {
	case "batch.completed", "batch.failed", "batch.expired", "batch.cancelled":
	default:
		return "", nil
	}
	if id := e.Data.V.ID.V; transport.PathSafe(id) {
		return id, nil
	}
	return "", errShape
}
