package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The vector: the secret's bytes are 1 to 32.
const (
	vectorSecret    = "whsec_AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="
	vectorID        = "msg_rc_0001"
	vectorTime      = 1767225600
	vectorBody      = `{"type":"report.created","timestamp":"2026-01-01T00:00:00Z","data":{"report_id":"rpt-77"}}`
	vectorSignature = "v1,fySG4pZdA2JiVle3AHYKXzBPBH9c7rN64/jycV0Fxb8="
)

func key(t testing.TB, text string) Key {
	t.Helper()
	k, err := ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// secretOf is the text of a secret of n bytes of one value.
func secretOf(value byte, n int) string {
	return secretPrefix + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(rune(value)), n)))
}

func headers(id, timestamp, signature string) http.Header {
	return http.Header{HeaderID: {id}, HeaderTimestamp: {timestamp}, HeaderSignature: {signature}}
}

// verifier stands at the time of the vector, some time behind it.
func verifier(behind time.Duration, keys ...Key) *Verifier {
	return &Verifier{Keys: keys, Now: func() time.Time { return time.Unix(vectorTime, 0).Add(behind) }, MaxBody: 1 << 10}
}

func TestVector(t *testing.T) {
	k := key(t, vectorSecret)
	d, err := verifier(0, k).Verify(headers(vectorID, fmt.Sprint(vectorTime), vectorSignature), []byte(vectorBody))
	if want := (Delivery{vectorID, time.Unix(vectorTime, 0).UTC(), 0}); err != nil || d != want {
		t.Errorf("got %+v, %v; want %+v", d, err, want)
	}
	h := http.Header{}
	if err := Sign(h, vectorID, time.Unix(vectorTime, 999), []byte(vectorBody), k); err != nil {
		t.Fatal(err)
	}
	if h.Get(HeaderSignature) != vectorSignature || h.Get(HeaderID) != vectorID || h.Get(HeaderTimestamp) != fmt.Sprint(vectorTime) {
		t.Errorf("signed: %v", h)
	}
}

// What other programs make of the same secret when they are wrong about it.
func TestForgedIsRefused(t *testing.T) {
	k := key(t, vectorSecret)
	const good = vectorSignature
	for name, signature := range map[string]string{
		"the whole secret as the key":  "v1,DgqSdjUB+grIsQnHzRR3bw5gaF1qeyoYYQClLQYogJ8=",
		"its base64 as the key":        "v1,/Or4DEcHjxtgwudFS4uvv5Yg7f2FxONfSwOK/vxtkyU=",
		"another version":              "v2" + good[2:],
		"the asymmetric version":       "v1a" + good[2:],
		"no version":                   good[3:],
		"a version in capitals":        "V1" + good[2:],
		"nothing behind the version":   "v1,",
		"an empty entry":               " ",
		"a digest that is cut":         good[:40],
		"a digest with something more": good + "A",
		"other bits behind the base64": good[:len(good)-2] + "9=", // which a lax decoder ignores
		"URL base64":                   strings.ReplaceAll(good, "/", "_"),
		"hexadecimal":                  fmt.Sprintf("v1,%x", sum(k, vectorBody)),
		"commas between the entries":   "v1,AAAA," + good,
		"a sum of zeros":               "v1," + base64.StdEncoding.EncodeToString(make([]byte, 32)),
	} {
		if _, err := verifier(0, k).Verify(headers(vectorID, fmt.Sprint(vectorTime), signature), []byte(vectorBody)); err != Forged {
			t.Errorf("%s: %v", name, err)
		}
	}
	raw := sum(k, vectorBody)
	for bit := range len(raw) * 8 {
		raw[bit/8] ^= 1 << (bit % 8)
		h := headers(vectorID, fmt.Sprint(vectorTime), version+base64.StdEncoding.EncodeToString(raw))
		if _, err := verifier(0, k).Verify(h, []byte(vectorBody)); err != Forged {
			t.Errorf("bit %d of the signature flipped: %v", bit, err)
		}
		raw[bit/8] ^= 1 << (bit % 8)
	}
	for name, tc := range map[string]struct {
		id, timestamp, body string
		keys                []Key
	}{
		"another id":          {"msg_rc_0002", fmt.Sprint(vectorTime), vectorBody, []Key{k}},
		"another time":        {vectorID, fmt.Sprint(vectorTime + 1), vectorBody, []Key{k}},
		"the time with zeros": {vectorID, "00" + fmt.Sprint(vectorTime), vectorBody, []Key{k}},
		"another body":        {vectorID, fmt.Sprint(vectorTime), vectorBody + "\n", []Key{k}},
		"printed again":       {vectorID, fmt.Sprint(vectorTime), strings.ReplaceAll(vectorBody, `":`, `": `), []Key{k}},
		"no body":             {vectorID, fmt.Sprint(vectorTime), "", []Key{k}},
		"another key":         {vectorID, fmt.Sprint(vectorTime), vectorBody, []Key{key(t, secretOf('x', 32))}},
		"no key":              {vectorID, fmt.Sprint(vectorTime), vectorBody, nil},
		"a key that is none":  {vectorID, fmt.Sprint(vectorTime), vectorBody, []Key{{}}},
	} {
		if _, err := verifier(0, tc.keys...).Verify(headers(tc.id, tc.timestamp, vectorSignature), []byte(tc.body)); err != Forged {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// sum is the signature as the specification has it, by another way than mac.
func sum(k Key, body string) []byte {
	m := hmac.New(sha256.New, []byte(*k.secret))
	m.Write([]byte(vectorID + "." + fmt.Sprint(vectorTime) + "." + body))
	return m.Sum(nil)
}

func TestHeadersMustHaveTheirForm(t *testing.T) {
	k, now := key(t, vectorSecret), fmt.Sprint(vectorTime)
	many := strings.Repeat("v1a,AA== ", MaxSignatures-1)
	for name, tc := range map[string]struct {
		h    http.Header
		want error
	}{
		"none":                        {http.Header{}, Unsigned},
		"no id":                       {http.Header{HeaderTimestamp: {now}, HeaderSignature: {vectorSignature}}, Unsigned},
		"no time":                     {http.Header{HeaderID: {vectorID}, HeaderSignature: {vectorSignature}}, Unsigned},
		"no signature":                {http.Header{HeaderID: {vectorID}, HeaderTimestamp: {now}}, Unsigned},
		"an empty id":                 {headers("", now, vectorSignature), Unsigned},
		"an empty time":               {headers(vectorID, "", vectorSignature), Unsigned},
		"an empty signature":          {headers(vectorID, now, ""), Unsigned},
		"two ids":                     {http.Header{HeaderID: {vectorID, vectorID}, HeaderTimestamp: {now}, HeaderSignature: {vectorSignature}}, Unsigned},
		"two times":                   {http.Header{HeaderID: {vectorID}, HeaderTimestamp: {now, now}, HeaderSignature: {vectorSignature}}, Unsigned},
		"two signature headers":       {http.Header{HeaderID: {vectorID}, HeaderTimestamp: {now}, HeaderSignature: {vectorSignature, vectorSignature}}, Unsigned},
		"a full stop in the id":       {headers("msg.1", now, vectorSignature), Malformed},
		"white space in the id":       {headers("msg 1", now, vectorSignature), Malformed},
		"a line feed in the id":       {headers("msg\n1", now, vectorSignature), Malformed},
		"an id that is not ASCII":     {headers("msgé", now, vectorSignature), Malformed},
		"an id that is too long":      {headers(strings.Repeat("a", maxID+1), now, vectorSignature), Malformed},
		"a sign":                      {headers(vectorID, "+"+now, vectorSignature), Malformed},
		"a negative time":             {headers(vectorID, "-1", vectorSignature), Malformed},
		"a fraction":                  {headers(vectorID, now+".0", vectorSignature), Malformed},
		"an exponent":                 {headers(vectorID, "1e9", vectorSignature), Malformed},
		"white space in the time":     {headers(vectorID, " "+now, vectorSignature), Malformed},
		"digits that are not ASCII":   {headers(vectorID, "١٧٦٧", vectorSignature), Malformed},
		"a time of too many digits":   {headers(vectorID, strings.Repeat("9", maxTimestamp+1), vectorSignature), Malformed},
		"a date":                      {headers(vectorID, "2026-01-01T00:00:00Z", vectorSignature), Malformed},
		"milliseconds":                {headers(vectorID, now+"0", vectorSignature), Future}, // of the year 2529
		"too many signatures":         {headers(vectorID, now, many+"v1a,AA== "+vectorSignature), Malformed},
		"as many as may be":           {headers(vectorID, now, many+vectorSignature), nil},
		"the last one of many spaces": {headers(vectorID, now, "  "+vectorSignature+" "), nil},
	} {
		if _, err := verifier(0, k).Verify(tc.h, []byte(vectorBody)); err != tc.want {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
}

// Both sides count: a sender whose clock is ahead could otherwise sign today what
// is repeated next year.
func TestToleranceInBothDirections(t *testing.T) {
	k := key(t, vectorSecret)
	for behind, want := range map[time.Duration]error{
		0: nil, DefaultTolerance: nil, -DefaultTolerance: nil,
		DefaultTolerance + 1: Stale, -DefaultTolerance - 1: Future, 30 * 365 * 24 * time.Hour: Stale, -30 * 365 * 24 * time.Hour: Future,
	} {
		if _, err := verifier(behind, k).Verify(headers(vectorID, fmt.Sprint(vectorTime), vectorSignature), []byte(vectorBody)); err != want {
			t.Errorf("signed %s ago: %v, want %v", behind, err, want)
		}
	}
	strict := verifier(2*time.Second, k)
	strict.Tolerance = time.Second
	if _, err := strict.Verify(headers(vectorID, fmt.Sprint(vectorTime), vectorSignature), []byte(vectorBody)); err != Stale {
		t.Errorf("another tolerance: %v", err)
	}
}

// While a secret is changed, either side may be first.
func TestRotation(t *testing.T) {
	old, next, other := key(t, secretOf('o', 24)), key(t, secretOf('n', 64)), key(t, secretOf('x', 32))
	for name, tc := range map[string]struct {
		signs, knows []Key
		want         int // the index of the key; -1 for a refusal
	}{
		"before":                    {[]Key{old}, []Key{old}, 0},
		"we know the new one":       {[]Key{old}, []Key{next, old}, 1},
		"the sender signs with it":  {[]Key{next}, []Key{next, old}, 0},
		"the sender signs with two": {[]Key{old, next}, []Key{next}, 0},
		"both":                      {[]Key{old, next}, []Key{next, old}, 0},
		"the old one is gone":       {[]Key{old}, []Key{next}, -1},
		"neither":                   {[]Key{other, other}, []Key{next, old}, -1},
	} {
		h := http.Header{}
		if err := Sign(h, "evt_1", time.Unix(vectorTime, 0), []byte(vectorBody), tc.signs...); err != nil {
			t.Fatal(err)
		}
		d, err := verifier(0, tc.knows...).Verify(h, []byte(vectorBody))
		if err != nil {
			d.Key = -1
		}
		if d.Key != tc.want || err != nil && err != Forged {
			t.Errorf("%s: key %d, %v; want %d", name, d.Key, err, tc.want)
		}
	}
}

func TestSignRefusesWhatNobodyWouldTake(t *testing.T) {
	k, now := key(t, vectorSecret), time.Unix(vectorTime, 0)
	for name, err := range map[string]error{
		"no id":               Sign(http.Header{}, "", now, nil, k),
		"a full stop":         Sign(http.Header{}, "a.b", now, nil, k),
		"a time before 1970":  Sign(http.Header{}, "a", time.Time{}, nil, k),
		"a time of no digits": Sign(http.Header{}, "a", time.Unix(1e12, 0), nil, k),
		"no key":              Sign(http.Header{}, "a", now, nil),
		"too many keys":       Sign(http.Header{}, "a", now, nil, make([]Key, MaxSignatures+1)...),
		"a key that is none":  Sign(http.Header{}, "a", now, nil, k, Key{}),
	} {
		if err == nil {
			t.Errorf("%s: signed", name)
		}
	}
}

func TestParseKey(t *testing.T) {
	for name, text := range map[string]string{"24 bytes": secretOf('a', 24), "32 bytes": vectorSecret, "64 bytes": secretOf('a', 64)} {
		if _, err := ParseKey(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, text := range map[string]string{
		"nothing":                "",
		"the prefix alone":       "whsec_",
		"no prefix":              vectorSecret[len(secretPrefix):],
		"the prefix in capitals": "WHSEC_" + vectorSecret[len(secretPrefix):],
		"a signature's version":  "v1," + vectorSecret,
		"a private key":          "whsk_" + vectorSecret[len(secretPrefix):],
		"23 bytes":               secretOf('a', 23),
		"65 bytes":               secretOf('a', 65),
		"without its padding":    strings.TrimRight(vectorSecret, "="),
		"other bits at the end":  strings.TrimSuffix(vectorSecret, "A=") + "B=",
		"URL base64":             secretPrefix + strings.Repeat("_-_-", 8),
		"a space behind":         vectorSecret + " ",
		"a line feed behind":     vectorSecret + "\n",
		"a line feed inside":     vectorSecret[:20] + "\r\n" + vectorSecret[20:],
		"two secrets":            vectorSecret + vectorSecret,
		"no base64":              "whsec_MARKER!MARKER!MARKER!MARKER!MARKER",
	} {
		_, err := ParseKey(text)
		if !errors.Is(err, ErrKey) {
			t.Errorf("%s: %v", name, err)
		}
		if strings.Contains(fmt.Sprint(err), "MARKER") {
			t.Errorf("%s: the secret is told: %v", name, err)
		}
	}
}

func TestKeyPrintsNothing(t *testing.T) {
	const text = "MARKER7f3A" // in the decoded bytes, whichever way they are printed
	k := key(t, secretPrefix+base64.StdEncoding.EncodeToString([]byte(strings.Repeat(text, 3))))
	v := verifier(0, k)
	holder := struct{ inner Verifier }{*v}
	asJSON, err := json.Marshal(map[string]any{"keys": v.Keys})
	if err != nil {
		t.Fatal(err)
	}
	printed := []string{fmt.Sprint(k), string(asJSON)}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, value := range []any{k, v.Keys, *v, holder, &holder} {
			printed = append(printed, fmt.Sprintf(format, value))
		}
	}
	for _, printed := range printed {
		for _, bad := range []string{text, fmt.Sprintf("%x", text), fmt.Sprint([]byte(text))[1:20], fmt.Sprintf("%#v", []byte(text))[8:30]} {
			if strings.Contains(printed, bad) {
				t.Errorf("the key is printed: %s", printed)
			}
		}
	}
}
