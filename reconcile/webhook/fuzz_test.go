package webhook

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// FuzzVerify: whatever the headers and the body are, only what one of the keys
// signed is genuine, by a second reading of the rules; and what Sign signs is,
// until one byte of it is another.
func FuzzVerify(f *testing.F) {
	f.Add(vectorID, fmt.Sprint(vectorTime), vectorSignature, []byte(vectorBody), uint16(0))
	f.Add("msg.rc", fmt.Sprint(vectorTime), vectorSignature+" v1,AAAA", []byte(vectorBody), uint16(9))
	f.Add("", "+1767225600", "v1a,AA== "+vectorSignature, []byte("\xff\x00"), uint16(77))
	f.Add(strings.Repeat("i", 300), "999999999999", strings.Repeat("v1, ", 40), []byte{}, uint16(1))
	f.Add(vectorID, " 1767225600", "\n"+vectorSignature, []byte(vectorBody+"\n"), uint16(500))
	keys := []Key{key(f, secretOf('a', 24)), key(f, vectorSecret)}
	v := verifier(0, keys...)
	f.Fuzz(func(t *testing.T, id, timestamp, signature string, body []byte, flip uint16) {
		d, err := v.Verify(headers(id, timestamp, signature), body)
		var r Refusal
		switch {
		case err == nil && (d.ID != id || !signedBy(keys[d.Key], id, timestamp, signature, body) || strings.ContainsAny(id, ". \n") || d.SentAt.Sub(v.Now()).Abs() > DefaultTolerance):
			t.Errorf("taken for genuine: %q at %q by key %d", id, timestamp, d.Key)
		case err != nil && (!errors.As(err, &r) || d != Delivery{}):
			t.Errorf("refused by %v with %+v", err, d)
		case err == Forged && (signedBy(keys[0], id, timestamp, signature, body) || signedBy(keys[1], id, timestamp, signature, body)):
			t.Errorf("a genuine one is refused: %q", signature)
		}
		h := http.Header{}
		if Sign(h, id, v.Now(), body, keys[1], keys[0]) != nil {
			return
		}
		if d, err := v.Verify(h, body); err != nil || d.Key != 0 || d.ID != id {
			t.Errorf("what was signed is %+v, %v", d, err)
		}
		other := append(bytes.Clone(body), 0)
		other[int(flip)%len(other)] ^= 1 << (flip % 8)
		if _, err := v.Verify(h, other); err != Forged {
			t.Errorf("another body: %v", err)
		}
		h.Set(HeaderTimestamp, fmt.Sprint(v.Now().Add(time.Second).Unix()))
		if _, err := v.Verify(h, body); err != Forged {
			t.Errorf("another time: %v", err)
		}
	})
}

// signedBy reads the rules a second time: one entry, between spaces, is exactly
// what the key makes of the three.
func signedBy(k Key, id, timestamp, signature string, body []byte) bool {
	m := hmac.New(sha256.New, []byte(*k.secret))
	m.Write(bytes.Join([][]byte{[]byte(id), []byte(timestamp), body}, []byte(".")))
	return strings.Contains(" "+signature+" ", " v1,"+base64.StdEncoding.EncodeToString(m.Sum(nil))+" ")
}

// FuzzParseKey: a secret has one text, and what is none is not told.
func FuzzParseKey(f *testing.F) {
	for _, text := range []string{vectorSecret, "whsec_", secretOf('a', 64), "v1," + vectorSecret, vectorSecret + "\n", "whsec_ " + vectorSecret[6:]} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		k, err := ParseKey(text)
		if err != nil {
			if len(text) > 16 && strings.Contains(err.Error(), text) || k.secret != nil {
				t.Errorf("the error tells %q, or there is a key", text)
			}
			return
		}
		if n := len(*k.secret); n < 24 || n > 64 || text != "whsec_"+base64.StdEncoding.EncodeToString([]byte(*k.secret)) {
			t.Errorf("%d bytes, or another text than %q", n, text)
		}
	})
}
