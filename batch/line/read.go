package line

import (
	"bytes"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"rollcall/batch"
	"rollcall/batch/loose"
)

// ReadID is the custom id of a request line. It reads no more of the line than
// that, and keeps no more.
func ReadID(line []byte) (customID string, ok bool) {
	var w struct {
		CustomID loose.Str `json:"custom_id"`
	}
	if json.Unmarshal(line, &w) != nil || !batch.ValidCustomID(w.CustomID.V) {
		return "", false
	}
	return w.CustomID.V, true
}

// RecoverID finds the custom_id of a result line that strict reading refused, so
// that the item can be named as the one that failed. The line must still be one
// whole JSON object with exactly one custom_id at the top: nothing is guessed.
func RecoverID(line []byte) string {
	dec := jsontext.NewDecoder(bytes.NewReader(line), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	var id loose.Str
	seen := 0
	isObject, err := loose.EachMember(dec, func(name string) error {
		if name != "custom_id" {
			return dec.SkipValue()
		}
		seen++
		return id.UnmarshalJSONFrom(dec)
	})
	if err != nil || !isObject || seen != 1 || !batch.ValidCustomID(id.V) {
		return ""
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return ""
	}
	return id.V
}
